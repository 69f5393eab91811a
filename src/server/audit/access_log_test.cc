#include "server/audit/access_log.h"

#include <fstream>
#include <sstream>

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::server {
namespace {

TEST(AccessLog, WritesARequestPerLineWithoutItsQuery) {
  osb::testing::TempDir directory;
  const std::string path = (directory / "logs" / "access.log").string();
  auto log = AccessLog::open(path, 1 << 20, 2);
  ASSERT_TRUE(log) << log.error().message;
  http::Request request;
  request.method = "GET";
  request.target = "/v1/sandboxes/\"x\"?token=secret";
  request.peer = "192.0.2.1";
  request.request_id = "r";
  log->note({request, 404, 12, std::chrono::microseconds(1500), false});
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const auto line = boost::json::parse(text.str()).as_object();
  EXPECT_EQ(line.at("method"), "GET");
  EXPECT_EQ(line.at("path"), "/v1/sandboxes/\"x\"");
  EXPECT_EQ(line.at("status"), 404);
  EXPECT_EQ(line.at("ms"), 1.5);
  EXPECT_EQ(line.at("peer"), "192.0.2.1");
  EXPECT_EQ(line.at("request_id"), "r");
}

TEST(AccessLog, DoesNotWriteATokenInThePath) {
  osb::testing::TempDir directory;
  const std::string path = (directory / "access.log").string();
  auto log = AccessLog::open(path, 1 << 20, 2);
  ASSERT_TRUE(log) << log.error().message;
  http::Request request;
  request.method = "POST";
  request.target = "/sandboxes/s1/proxy/44772/access-token/s3cret/command?x=s3cret";
  log->note({request, 200, 12, std::chrono::microseconds(1500), false});
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(boost::json::parse(text.str()).at("path"), "/sandboxes/s1/proxy/44772/access-token/***/command");
  EXPECT_EQ(text.str().find("s3cret"), std::string::npos) << text.str();
}

TEST(AccessLog, AFileThatCannotBeOpenedIsNamed) {
  const auto log = AccessLog::open("/proc/none/access.log", 1 << 20, 2);
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().message.find("access_file_path"), std::string::npos);
}

}  // namespace
}  // namespace osb::server
