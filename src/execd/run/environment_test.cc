#include "execd/run/environment.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

TEST(ParseEnvFile, FollowsTheContract) {
  const Environment daemon = {{"HOME", "/root"}, {"A", "1"}};
  const Environment env = parse_env_file(
      "# comment\n"
      "\n"
      "  PLAIN = a value  \r\n"
      "no equals sign\n"
      "TWICE=first\n"
      "TWICE=second\n"
      "EXPANDED=$HOME/${A}x$UNDEFINED.\n"
      "LITERAL=100$ ${ $9 a$\n"
      "OWN=$PLAIN\n"
      "EMPTY=\n"
      "EQ=a=b",
      daemon);
  const Environment want = {
      {"PLAIN", "a value"}, {"TWICE", "second"}, {"EXPANDED", "/root/1x."}, {"LITERAL", "100$ ${ $9 a$"}, {"OWN", ""},
      {"EMPTY", ""},        {"EQ", "a=b"}};
  EXPECT_EQ(env, want);
}

TEST(ParseEnvFile, TakesQuotedValues) {
  const Environment daemon = {{"HOME", "/root"}};
  const Environment env = parse_env_file(
      "LITERAL='$HOME `x` \\n \"q\" # '  \r\n"
      "LINES='one\n\n# two\nNOT=this\n'\n"
      "ESCAPED=\"it's \\\"both\\\" \\\\n \\n\\r\\t \\$HOME \\x\"\n"
      "EXPANDED = \"$HOME/${HOME}$UNDEFINED.\"\n"
      "EMPTY=''\n"
      "EMPTY2=\"\"\n"
      "LITERAL2='a'\n"
      "LITERAL2='b'",
      daemon);
  const Environment want = {{"LITERAL", "$HOME `x` \\n \"q\" # "},
                            {"LINES", "one\n\n# two\nNOT=this\n"},
                            {"ESCAPED", "it's \"both\" \\n \n\r\t $HOME \\x"},
                            {"EXPANDED", "/root//root."},
                            {"EMPTY", ""},
                            {"EMPTY2", ""},
                            {"LITERAL2", "b"}};
  EXPECT_EQ(env, want);
}

TEST(ParseEnvFile, ALineWithABrokenQuoteIsSkipped) {
  const Environment env = parse_env_file(
      "A='open\n"
      "B='closed'\n"
      "C='a' b\n"
      "D=\"x\" # y\n"
      "E=it's\n"
      "F=\"ends in an escape\\\"\n"
      "G=g\n"
      "H='",
      {});
  const Environment want = {{"B", "closed"}, {"E", "it's"}, {"G", "g"}};
  EXPECT_EQ(env, want);
  for (const char* broken : {"A=\"", "A=\"\\", "A='", "'='", "='x'", "A=\"\\\n"}) parse_env_file(broken, {});
  using namespace std::string_view_literals;
  EXPECT_TRUE(parse_env_file("A='x\0y'\n"sv, {}).empty()) << "exec would cut it";
}

TEST(CommandEnvironment, FindsProgramsInTheCommandsOwnPath) {
  const testing::TempDir dir;
  std::ofstream(dir / "tool") << "#!/bin/sh\n";
  std::filesystem::permissions(dir / "tool", std::filesystem::perms(0755));
  const std::string tools = dir.path().string();
  EXPECT_EQ(CommandEnvironment::program("tool", {{"PATH", "relative::/bin:" + tools}}).value(), tools + "/tool");
  EXPECT_EQ(CommandEnvironment::program("./tool", {}).value(), "./tool");
  EXPECT_TRUE(CommandEnvironment::program("sh", {})) << "without PATH the usual directories count";
  std::filesystem::current_path(dir.path());  // where an empty entry of PATH would lead
  for (const char* path : {"/bin", ".", "", "bin:", "/bin::."}) {
    const auto missing = CommandEnvironment::program("tool", {{"PATH", path}});
    ASSERT_FALSE(missing) << path;
    EXPECT_EQ(missing.error().code, Code::NotFound) << path;
  }
  std::filesystem::current_path("/");
}

TEST(CommandEnvironment, LaterLayersWinAndTheDaemonsOwnSettingsAreNotPassedOn) {
  const testing::TempDir dir;
  const auto file = dir / "envs";
  CommandEnvironment source({{"EXECD_ACCESS_TOKEN", "secret"},
                             {"EXECD_LOG_FILE", "/log"},
                             {"_EXECD_CLONE3_COMPAT_APPLIED", "1"},
                             {"JUPYTER_TOKEN", "secret"},
                             {"OPENSANDBOX_ID", "box"},
                             {"EXECD_ENVS", "$DIR/envs"},
                             {"DIR", dir.path().string()},
                             {"A", "daemon"},
                             {"B", "daemon"},
                             {"C", "daemon"}},
                            "/");
  EXPECT_EQ(source.for_command({}).at("B"), "daemon") << "a file that is not there changes nothing";
  std::ofstream(file) << "B=file\nC=file\nOPENSANDBOX_ID=file\n";
  Environment env = source.for_command({{"C", "request"}, {"OPENSANDBOX_ID", "request"}});
  EXPECT_EQ(env.at("A"), "daemon");
  EXPECT_EQ(env.at("B"), "file");
  EXPECT_EQ(env.at("C"), "request");
  EXPECT_EQ(env.at("OPENSANDBOX_ID"), "box") << "no layer changes it";
  EXPECT_EQ(env.at("EXECD_ENVS"), "$DIR/envs") << "clients append to it by a command";
  for (const char* own : {"EXECD_ACCESS_TOKEN", "EXECD_LOG_FILE", "_EXECD_CLONE3_COMPAT_APPLIED", "JUPYTER_TOKEN"}) {
    EXPECT_FALSE(env.contains(own)) << own;
  }
  std::ofstream(file) << "B=again\n";
  EXPECT_EQ(source.for_command({}).at("B"), "again") << "read anew for every command";
  source.add({{"A", "init"}, {"B", "init"}, {"EXECD_ACCESS_TOKEN", "init"}});
  env = source.for_command({});
  EXPECT_EQ(env.at("A"), "init");
  EXPECT_EQ(env.at("B"), "again");
  EXPECT_FALSE(env.contains("EXECD_ACCESS_TOKEN"));
}

TEST(CommandEnvironment, CwdMayUseVariablesOfTheRequest) {
  const testing::TempDir dir;
  CommandEnvironment source({{"HOME", dir.path().string()}}, "/usr");
  EXPECT_EQ(source.directory("", {}).value(), "/usr");
  EXPECT_EQ(source.directory("~", source.daemon()).value(), dir.path().string());
  EXPECT_EQ(source.directory("$WHERE/.", source.for_command({{"WHERE", dir.path().string()}})).value(),
            dir.path().string());
  EXPECT_EQ(source.directory("bin", {}).value(), "/usr/bin");
  for (const char* bad : {"/nonexistent", "$UNDEFINED", "/etc/passwd", "/etc/passwd/x"}) {
    const auto result = source.directory(bad, {});
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, Code::InvalidRequest) << bad;
  }
}

TEST(CommandEnvironment, CwdDoesNotLeadIntoTheDaemonsDescriptors) {
  const testing::TempDir dir;
  const UniqueFd open(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string magic = "/proc/self/fd/" + std::to_string(open.get());
  std::filesystem::create_directory(dir / "target");
  std::filesystem::create_directory_symlink("target", dir / "link");
  std::filesystem::create_directory_symlink(magic, dir / "disguised");
  CommandEnvironment source({}, "/");
  EXPECT_TRUE(source.directory((dir / "link").string(), {}));
  EXPECT_TRUE(source.new_directory((dir / "link").string()));
  for (const std::string& bad : {magic, magic + "/target", (dir / "disguised").string()}) {
    for (const auto& result : {source.directory(bad, {}), source.new_directory(bad)}) {
      ASSERT_FALSE(result) << bad;
      EXPECT_EQ(result.error().code, Code::InvalidRequest) << bad;
      EXPECT_THAT(result.error().message, ::testing::HasSubstr("a link of /proc")) << bad;
    }
  }
  EXPECT_FALSE(source.new_directory(magic + "/made"));
  EXPECT_FALSE(std::filesystem::exists(dir / "made"));
}

TEST(CommandEnvironment, FindsAShell) {
  CommandEnvironment source({{"PATH", "/nonexistent:/usr/bin:/bin"}}, "/");
  EXPECT_TRUE(source.shell().value().ends_with("/bash"));
  EXPECT_FALSE(CommandEnvironment({{"PATH", "/nonexistent"}}, "/").shell());
}

}  // namespace
}  // namespace osb::execd
