#include "mcp/command_line.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::mcp {
namespace {

TEST(CommandLine, DefaultsAreForOneClientOnStdio) {
  const auto line = parse_command_line({});
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->stdio);
  EXPECT_FALSE(line->session.keep_sandboxes);
  EXPECT_FALSE(line->session.own_only);
  EXPECT_TRUE(parse_command_line({"--transport", "streamable-http"})->session.own_only);
  EXPECT_FALSE(parse_command_line({"--transport=streamable-http", "--list=all"})->session.own_only);
}

TEST(CommandLine, BeyondThisMachineItNeedsAToken) {
  ::unsetenv("OPENSANDBOX_MCP_TOKEN");
  for (const char* host : {"0.0.0.0", "::", "192.168.0.1"}) {
    auto line = parse_command_line({"--transport=streamable-http", "--host", host});
    ASSERT_TRUE(line);
    EXPECT_FALSE(fill_secrets(*line)) << host;
  }
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    auto line = parse_command_line({"--transport=streamable-http", "--host", host});
    ASSERT_TRUE(line);
    EXPECT_TRUE(fill_secrets(*line)) << host;
    EXPECT_TRUE(line->http.web.check_host);
  }
  ::setenv("OPENSANDBOX_MCP_TOKEN", "secret", 1);
  auto line = parse_command_line({"--transport=streamable-http", "--host=0.0.0.0"});
  EXPECT_TRUE(fill_secrets(*line));
  EXPECT_EQ(line->http.token, "secret");
  ::unsetenv("OPENSANDBOX_MCP_TOKEN");
}

TEST(CommandLine, SecretsComeFromTheFirstLineOfAFile) {
  const testing::TempDir dir;
  const std::string path = dir.path() / "token";
  std::ofstream(path) << "  secret \r\nmore\n";
  auto line = parse_command_line({"--transport=streamable-http", "--token-file", path, "--api-key-file", path});
  ASSERT_TRUE(line && fill_secrets(*line));
  EXPECT_EQ(line->http.token, "secret");
  EXPECT_EQ(line->connection.api_key, "secret");
  std::ofstream(path, std::ios::trunc) << "\n";
  EXPECT_FALSE(fill_secrets(*line));
}

TEST(CommandLine, RepliesArePlainAndBoundedUnlessToldOtherwise) {
  const auto plain = parse_command_line({});
  EXPECT_FALSE(plain->session.reply.published || plain->all_tools);
  EXPECT_EQ(plain->session.reply.max_bytes, 65'536u);
  const auto other = parse_command_line({"--published-results", "--all-tools", "--max-reply-bytes=4096"});
  EXPECT_TRUE(other->session.reply.published && other->all_tools);
  EXPECT_EQ(other->session.reply.max_bytes, 4096u);
  for (const char* wrong : {"0", "4095", "16777217", "many", ""}) {
    EXPECT_FALSE(parse_command_line({"--max-reply-bytes", wrong})) << wrong;
  }
}

}  // namespace
}  // namespace osb::mcp
