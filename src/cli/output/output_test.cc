#include "cli/output/output.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::cli {
namespace {

// An Output whose two streams can be read.
class Captured {
 public:
  Captured(Format format, bool terminal = false, bool color = false)
      : out_(::open_memstream(&out_text_, &out_size_)),
        err_(::open_memstream(&err_text_, &err_size_)),
        output(format, {out_, terminal, color}, {err_, terminal, color}) {}
  ~Captured() {
    std::fclose(out_);
    std::fclose(err_);
    std::free(out_text_);
    std::free(err_text_);
  }
  std::string out() { return output.flush(), std::string(out_text_, out_size_); }
  std::string err() { return output.flush(), std::string(err_text_, err_size_); }

 private:
  char *out_text_ = nullptr, *err_text_ = nullptr;
  std::size_t out_size_ = 0, err_size_ = 0;
  std::FILE *out_, *err_;

 public:
  Output output;
};

const json::array kRows = {{{"id", "a"}, {"status", "Running"}, {"image", nullptr}}, {{"id", "b\tc"}, {"status", "x"}}};

TEST(Output, PipesGetLinesWithTabs) {
  Captured table(Format::Table);
  table.output.rows(kRows, {"id", "status", "image"}, "Title");
  EXPECT_EQ(table.out(), "ID\tSTATUS\tIMAGE\na\tRunning\t-\nb c\tx\t-\n");
}

TEST(Output, TerminalsGetBoxes) {
  Captured table(Format::Table, true);
  table.output.rows(kRows, {"id", "status"}, "Title");
  EXPECT_EQ(table.out(),
            "Title\n"
            "╭─────┬───────────╮\n"
            "│ ID  │ STATUS    │\n"
            "├─────┼───────────┤\n"
            "│ a   │ ● Running │\n"
            "│ b\tc │ x         │\n"
            "╰─────┴───────────╯\n");
}

TEST(Output, MessagesGoWhereTheyBelong) {
  Captured plain(Format::Table);
  plain.output.ok("fine");
  plain.output.warning("careful");
  EXPECT_EQ(plain.out(), "OK: fine\n");
  EXPECT_EQ(plain.err(), "WARN: careful\n");
  Captured data(Format::Json);
  data.output.warning("careful");
  EXPECT_EQ(data.out(), "{\n  \"status\": \"warning\",\n  \"message\": \"careful\"\n}\n");
  EXPECT_EQ(data.err(), "");
}

TEST(Output, PanelsAreIndentedLines) {
  Captured plain(Format::Table);
  plain.output.panel("Done", {{"id", "x"}, {"n", 3}});
  EXPECT_EQ(plain.out(), "--- Done ---\n  id: x\n  n: 3\n");
}

TEST(Output, ProblemsAreOneSentenceOrData) {
  Problem problem{"Sandbox Error", "SANDBOX::NOT_FOUND", "sandbox x not found", "See the list."};
  problem.status = 404;
  Captured plain(Format::Table);
  plain.output.problem(problem);
  EXPECT_EQ(plain.err(), "ERROR [Sandbox Error]: sandbox x not found. See the list.\n");
  EXPECT_EQ(plain.out(), "");
  Captured data(Format::Json);
  data.output.problem(problem);
  const auto parsed = api::parse_json(data.err());
  ASSERT_TRUE(parsed);
  const json::object& error = parsed->at("error").as_object();
  EXPECT_EQ(error.at("code"), "SANDBOX::NOT_FOUND");
  EXPECT_EQ(error.at("status"), 404);
  EXPECT_EQ(error.at("hint"), "See the list.");
}

TEST(Output, JsonHasNumbersThatReadBackTheSame) {
  EXPECT_EQ(to_json_line(json::array{1, 2.0, 0.1, 1e300, true, nullptr, "é\n\"", json::object{}}),
            "[1, 2.0, 0.1, 1e+300, true, null, \"é\\n\\\"\", {}]");
}

}  // namespace
}  // namespace osb::cli
