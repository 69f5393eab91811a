#include "server/audit/audit_log.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::server {
namespace {

struct Audited {
  explicit Audited(std::string_view route, std::string method = "POST") {
    request.method = std::move(method);
    request.route = route;
    request.request_id = "request-1";
    request.peer = "10.0.0.9";
    request.headers.add("OPEN-SANDBOX-API-KEY", "top-secret");
  }
  Audited& with(std::string_view name, std::string value) { return request.params.add(name, std::move(value)), *this; }

  // The contents of the file after this answer.
  std::string answered(http::Response response) {
    testing::TempDir directory;
    const std::string path = directory.path() / "audit" / "log";
    auto log = AuditLog::open(path, 1 << 20, 2);
    EXPECT_TRUE(log) << log.error().message;
    log->note(request, response);
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  http::Request request;
};

TEST(AuditLog, ACreateIsWrittenWithTheIdThatItGotAndAFingerprintOfTheKey) {
  const std::string line = Audited("/v1/sandboxes").answered(http::json_response(202, R"({"id":"sb-1","status":{}})"));
  EXPECT_NE(line.find(R"("action":"create","status":202,"sandbox":"sb-1")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("key":")" + key_fingerprint("top-secret") + "\""), std::string::npos) << line;
  EXPECT_NE(line.find(R"("peer":"10.0.0.9","request_id":"request-1"})"), std::string::npos) << line;
  EXPECT_EQ(line.find("top-secret"), std::string::npos);
}

TEST(AuditLog, ARefusalIsWrittenWithItsCode) {
  const std::string line = Audited("/sandboxes/{id}", "DELETE")
                               .with("id", "sb-1")
                               .answered(http::problem(404, "NATIVE::SANDBOX_NOT_FOUND", "no"));
  EXPECT_NE(line.find(R"("action":"delete","status":404,"sandbox":"sb-1","code":"NATIVE::SANDBOX_NOT_FOUND")"),
            std::string::npos)
      << line;
}

TEST(AuditLog, AnIdFromThePathCannotForgeALine) {
  const std::string line =
      Audited("/sandboxes/{id}/pause").with("id", "x\"}\n{\"action\":\"y").answered(http::empty_response(202));
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  EXPECT_NE(line.find(R"("sandbox":"x\"}\n{\"action\":\"y")"), std::string::npos) << line;
}

TEST(AuditLog, ReadsAreNotWritten) {
  EXPECT_EQ(Audited("/v1/sandboxes", "GET").answered(http::json_response(200, R"({"id":"x"})")), "");
}

std::string proxied(std::string rest, std::string port, int status = 200, std::string method = "POST") {
  return Audited("/v1/sandboxes/{id}/proxy/{port}/{rest*}", std::move(method))
      .with("id", "sb-1")
      .with("port", std::move(port))
      .with("rest", std::move(rest))
      .answered(http::empty_response(status));
}

TEST(AuditLog, CommandsThroughTheProxyAreWrittenHoweverTheirPathIsSpelled) {
  for (const char* rest : {"command", "command/", "c%6fmmand", "code", "session/s1/run", "pty", "proxy/44772/command",
                           "access-token/t0/command", "access-token/t0/proxy/44772/c%6fmmand"}) {
    EXPECT_NE(proxied(rest, "44772").find(R"("action":"exec")"), std::string::npos) << rest;
  }
  EXPECT_NE(proxied("command", "044772").find(R"("key":"execd-token")"), std::string::npos);
  EXPECT_EQ(proxied("access-token/t0/command", "44772").find("t0"), std::string::npos);
  EXPECT_NE(proxied("pty/p1/ws", "44772", 101, "GET").find(R"("status":101)"), std::string::npos);
}

TEST(AuditLog, OtherAndRefusedTrafficThroughTheProxyIsNotWritten) {
  EXPECT_EQ(proxied("command", "8080"), "");
  EXPECT_EQ(proxied("files/upload", "44772"), "");
  EXPECT_EQ(proxied("command", "44772", 401), "");
  EXPECT_EQ(proxied("access-token/t0/command", "44772", 401), "");
  EXPECT_EQ(proxied("access-token/t0/files/upload", "44772"), "");
  EXPECT_EQ(proxied("access-token/t0/access-token/t0/command", "44772"), "");
  EXPECT_EQ(proxied("command/status/1", "44772", 200, "GET"), "");
}

TEST(AuditLog, AFileThatCannotBeOpenedIsNamedWithItsSetting) {
  const auto log = AuditLog::open("/proc/none/audit", 1 << 20, 2);
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().message.find("audit_file_path"), std::string::npos) << log.error().message;
}

TEST(AuditLog, TheMiddlewareWritesAndPassesTheAnswerOn) {
  testing::TempDir directory;
  const std::string path = directory.path() / "log";
  auto log = AuditLog::open(path, 1 << 20, 2);
  ASSERT_TRUE(log);
  const http::Handler handler = with_audit(
      [](http::Request&) -> net::awaitable<http::Response> { co_return http::json_response(202, R"({"id":"a"})"); },
      *log);
  Audited audited("/sandboxes");
  const auto response = testing::await(handler(audited.request));
  EXPECT_EQ(response.status, 202);
  std::ifstream in(path);
  std::string line;
  EXPECT_TRUE(std::getline(in, line));
}

}  // namespace
}  // namespace osb::server
