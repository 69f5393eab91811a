#include "fixture.h"

namespace opensandbox {
namespace {

using SdkCode = SandboxTest;

std::string value(const Execution& run) {
  if (run.error) return run.error->name + ": " + run.error->value;
  return run.results.empty() ? "" : run.results.back().at("text/plain");
}

TEST_F(SdkCode, ContextHasADirectoryAndVariablesOfItsOwn) {
  const auto code = sandbox().code();
  const auto made = must(code.create_context("python", {.cwd = "/tmp/made here", .envs = {{"HELD", "1 2"}}}));
  const auto other = must(code.create_context("python"));
  EXPECT_EQ(must(code.context(made.id)).language, "python");
  const std::string show = "import os\n[os.getcwd(), os.environ.get('HELD')]";
  EXPECT_EQ(value(must(code.run(show, {.context = made}))), "['/tmp/made here', '1 2']");
  EXPECT_EQ(value(must(code.run("import os\n'HELD' in os.environ", {.context = other}))), "False");
  // Those of a run hold for that run.
  EXPECT_EQ(value(must(code.run(show, {.context = made, .cwd = "/usr", .envs = {{"HELD", "3"}}}))), "['/usr', '3']");
  EXPECT_EQ(value(must(code.run(show, {.context = made}))), "['/tmp/made here', '1 2']");
}

TEST_F(SdkCode, TimeoutOfAContextEndsItsRuns) {
  const auto code = sandbox().code();
  const auto made = must(code.create_context("python", {.timeout = std::chrono::milliseconds(300)}));
  const auto late = must(code.run("while True: pass", {.context = made}));
  ASSERT_TRUE(late.error);
  EXPECT_NE(late.error->value.find("300 ms"), std::string::npos) << late.error->value;
  const RunCodeOptions patient{.context = made, .timeout = std::chrono::minutes(5)};
  EXPECT_EQ(value(must(code.run("1 + 1", patient))), "2");
}

TEST_F(SdkCode, RefusedContextSaysWhy) {
  const auto unknown = sandbox().code().create_context("cobol");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("cobol"), std::string::npos) << unknown.error().to_string();
  const auto odd = sandbox().code().create_context("python", {.cwd = "/dev/null/below"});
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message.find("/dev/null/below"), std::string::npos) << odd.error().to_string();
}

}  // namespace
}  // namespace opensandbox
