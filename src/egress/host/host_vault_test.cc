#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <boost/json/parse.hpp>

#include "base/log.h"
#include "egress/host/host_api_fixture.h"

namespace osb::egress::testing {
namespace {

constexpr std::string_view kEmpty = R"({"credentials":[],"bindings":[]})";
constexpr std::string_view kSecret = "s3cret-value-0123";

std::string filled(std::string_view host = "api.example.com") {
  return R"({"credentials":[{"name":"a/b","source":{"type":"inline","value":")" + std::string(kSecret) +
         R"("}}],"bindings":[{"name":"b","match":{"hosts":[")" + std::string(host) +
         R"("]},"auth":{"type":"bearer","credential":"a/b"}}]})";
}

// The gates are the test's; the vaults of other sandboxes than "a" have no interception.
class HostVault : public HostApi {
 protected:
  VaultOptions vault_options() override {
    VaultOptions out;
    out.intercepted = [this](const Sandbox& sandbox) { return intercepted_ && sandbox.id == "a"; };
    out.proxy_up = [this] { return proxy_up_; };
    out.store = [this](std::string id, std::optional<vault::StoredVault> stored) -> net::awaitable<Result<void>> {
      if (!store_error_.empty()) co_return fail(Code::Internal, store_error_);
      stored_.push_back(id + " " + (stored ? boost::json::serialize(*stored) : "none"));
      co_return Result<void>();
    };
    return out;
  }
  Answered vault(std::string_view method, std::string_view body = "", std::string_view path = "") {
    return call(request(method, "/credential-vault" + std::string(path), body));
  }

  bool intercepted_ = true, proxy_up_ = true;
  std::string store_error_;
  std::vector<std::string> stored_;
};

TEST_F(HostVault, ConformanceSequenceHolds) {
  const auto made = vault("POST", kEmpty);
  EXPECT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.body, "{\"revision\":1,\"credentials\":[],\"bindings\":[]}\n");
  EXPECT_TRUE(made.has("Content-Type: application/json"));
  const auto again = vault("POST", kEmpty);
  EXPECT_EQ(again.status, 409);
  EXPECT_TRUE(again.has("Content-Type: text/plain; charset=utf-8"));
  const struct {
    const char* why;
    std::string body;
    int status;
    int revision;
  } steps[] = {
      {"add both",
       R"({"expectedRevision":1,"credentials":{"add":[{"name":"t","source":{"value":"v1"}}]},"bindings":{"add":[{"name":"b",
           "match":{"hosts":["api.example.com"],"paths":["/a"]},"auth":{"type":"bearer","credential":"t"}}]}})",
       200, 2},
      {"stale revision", R"({"expectedRevision":1})", 409, 2},
      {"credential still used", R"({"credentials":{"delete":["t"]}})", 400, 2},
      {"delete binding", R"({"bindings":{"delete":["b"]}})", 200, 3},
      {"replace and add other",
       R"({"credentials":{"replace":[{"name":"t","source":{"value":"v2"}}]},"bindings":{"add":[{"name":"c",
           "match":{"hosts":["api.example.com"],"paths":["/b"]},"auth":{"type":"bearer","credential":"t"}}]}})",
       200, 4},
      {"delete other", R"({"bindings":{"delete":["c"]}})", 200, 5},
      {"delete credential", R"({"credentials":{"delete":["t"]}})", 200, 6},
  };
  for (const auto& step : steps) {
    EXPECT_EQ(vault("PATCH", step.body).status, step.status) << step.why;
    EXPECT_EQ(boost::json::parse(vault("GET").body).at("revision"), step.revision) << step.why;
  }
  const auto gone = vault("DELETE");
  EXPECT_EQ(gone.status, 204);
  EXPECT_EQ(gone.body, "");
  EXPECT_EQ(vault("GET").status, 404);
  EXPECT_EQ(vault("DELETE").status, 404);
  EXPECT_EQ(vault("PATCH", "{}").status, 404);
  EXPECT_EQ(boost::json::parse(vault("POST", kEmpty).body).at("revision"), 1);
}

TEST_F(HostVault, ItemsAreFoundByTheirEncodedNames) {
  EXPECT_EQ(vault("GET", "", "/credentials").status, 404);
  EXPECT_EQ(vault("GET", "", "/bindings/b").status, 404);
  ASSERT_EQ(vault("POST", filled()).status, 201);
  EXPECT_EQ(vault("GET", "", "/credentials").body,
            "{\"revision\":1,\"credentials\":[{\"name\":\"a/b\",\"sourceType\":\"inline\",\"revision\":1}]}\n");
  EXPECT_EQ(vault("GET", "", "/credentials/a%2Fb").status, 200);
  EXPECT_EQ(vault("GET", "", "/credentials/%20a%2Fb%20").status, 200);
  EXPECT_EQ(vault("GET", "", "/credentials/x").status, 404);
  EXPECT_EQ(boost::json::parse(vault("GET", "", "/bindings/b").body).at("auth").at("type"), "bearer");
  EXPECT_EQ(boost::json::parse(vault("GET", "", "/bindings").body).at("bindings").as_array().size(), 1u);
}

TEST_F(HostVault, RoutesAndMethodsAreRefusedAsTheContractSays) {
  for (const char* path : {"/x", "/", "/credentialsx", "/_active/x"}) {
    EXPECT_EQ(vault("GET", "", path).status, 404) << path;
    EXPECT_EQ(call(request("GET", "/credential-vault" + std::string(path), "", "wrong")).status, 401) << path;
  }
  const auto put = vault("PUT", kEmpty);
  EXPECT_EQ(put.status, 405);
  EXPECT_TRUE(put.has("Allow: GET, POST, PATCH, DELETE"));
  const auto post = vault("POST", kEmpty, "/credentials");
  EXPECT_EQ(post.status, 405);
  EXPECT_TRUE(post.has("Allow: GET"));
  for (const char* token : {"token-of-a", "wrong", ""}) {
    EXPECT_EQ(call(request("GET", "/credential-vault/_active", "", token)).status, 403) << token;
    EXPECT_EQ(call(request("POST", "/credential-vault/_active", "", token)).status, 405) << token;
  }
  EXPECT_EQ(call(request("POST", "/credential-vault", kEmpty, "wrong")).status, 401);
}

TEST_F(HostVault, WritesNeedInterceptionAndReadsDoNot) {
  ASSERT_EQ(vault("POST", kEmpty).status, 201);
  const auto writes_are = [&](int status) {
    // Before the body is looked at.
    EXPECT_EQ(vault("POST", "{").status, status);
    EXPECT_EQ(vault("PATCH", "{").status, status);
    EXPECT_EQ(vault("DELETE").status, status);
    EXPECT_EQ(vault("GET").status, 200);
  };
  intercepted_ = false;
  writes_are(412);
  intercepted_ = true;
  proxy_up_ = false;
  writes_are(412);
  proxy_up_ = true;
  EXPECT_EQ(vault("DELETE").status, 204);
}

TEST_F(HostVault, WrongBodiesAre400AndChangeNothing) {
  for (const std::string& body :
       {std::string("{"), std::string(), std::string(R"({"credentials":[],"bindings":[],"x":1})"), filled("evil.org"),
        filled("localhost"), std::string((1 << 20) + 1, ' ')}) {
    const auto refused = vault("POST", body);
    EXPECT_EQ(refused.status, 400) << body.substr(0, 80);
    EXPECT_FALSE(refused.body.contains(kSecret)) << refused.body;
  }
  EXPECT_EQ(vault("GET").status, 404);
  EXPECT_TRUE(stored_.empty());
}

TEST_F(HostVault, PolicyThatClosesABoundHostIsRefused) {
  ASSERT_EQ(vault("POST", filled()).status, 201);
  for (const auto& [method, body] : {std::pair("DELETE", R"(["*.example.com"])"), std::pair("POST", ""),
                                     std::pair("PATCH", R"([{"action":"deny","target":"api.example.com"}])")}) {
    const auto refused = call(request(method, "/policy", body));
    EXPECT_EQ(refused.status, 400) << method;
    EXPECT_TRUE(refused.body.contains("api.example.com")) << refused.body;
  }
  auto waiting = begin(request("PATCH", "/policy", R"([{"action":"deny","target":"other.example.com"}])"));
  (void)enforce();
  EXPECT_EQ(finish(*waiting).status, 200);
  // The vault outlives the change.
  EXPECT_EQ(vault("GET").status, 200);
}

TEST_F(HostVault, VaultIsStoredWithoutValuesBeforeItIsInForce) {
  store_error_ = "disk is full";
  const auto refused = vault("POST", filled());
  EXPECT_EQ(refused.status, 500);
  EXPECT_TRUE(refused.body.contains("disk is full"));
  EXPECT_EQ(vault("GET").status, 404);
  store_error_.clear();
  ASSERT_EQ(vault("POST", filled()).status, 201);
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].starts_with("a {"));
  EXPECT_TRUE(stored_[0].contains("api.example.com"));
  EXPECT_FALSE(stored_[0].contains(kSecret));
  ASSERT_EQ(vault("DELETE").status, 204);
  EXPECT_EQ(stored_.back(), "a none");
}

TEST_F(HostVault, OneSandboxHasNoWayToTheVaultOfAnother) {
  ASSERT_EQ(vault("POST", filled()).status, 201);
  add_sandbox("b", "127.0.0.3", kAllowExample);
  EXPECT_EQ(call(request("GET", "/credential-vault"), "b").status, 401);
  EXPECT_EQ(call(request("GET", "/credential-vault", "", "token-of-b"), "b").status, 404);
  EXPECT_EQ(call(request("POST", "/credential-vault", kEmpty, "token-of-b"), "b").status, 412);
}

TEST_F(HostVault, AuditRouteShowsTheLinesOfTheSandbox) {
  EXPECT_EQ(vault("GET", "", "/audit").body, "{\"lines\":[]}\n");
  ASSERT_EQ(vault("POST", filled()).status, 201);
  EXPECT_EQ(vault("PATCH", R"({"expectedRevision":7})").status, 409);
  const auto lines = boost::json::parse(vault("GET", "", "/audit").body).at("lines").as_array();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("operation"), "create");
  EXPECT_EQ(lines[0].at("credential_binding"), "b");
  EXPECT_EQ(lines[0].at("status_code"), 201);
  EXPECT_EQ(lines[1].at("status_code"), 409);
  EXPECT_EQ(vault("POST", "", "/audit").status, 405);
  EXPECT_EQ(call(request("GET", "/credential-vault/audit", "", "wrong")).status, 401);
}

TEST_F(HostVault, ChangesLeaveAuditLinesAndNoSecretInTheLog) {
  const std::string path = ::testing::TempDir() + "/vault-audit-" + std::to_string(::getpid()) + ".log";
  ASSERT_TRUE(configure_log({.level = LogLevel::Debug, .format = LogFormat::Json, .outputs = {path}}));
  EXPECT_EQ(vault("POST", filled()).status, 201);
  EXPECT_EQ(vault("POST", filled()).status, 409);
  EXPECT_EQ(
      vault("PATCH", R"({"credentials":{"replace":[{"name":"a/b","source":{"value":"s3cret-value-4567"}}]}})").status,
      200);
  EXPECT_EQ(vault("PATCH", R"({"credentials":{"add":[{"name":"x","source":{"value":"s3cret-value-89\n"}}]}})").status,
            400);
  EXPECT_EQ(vault("DELETE").status, 204);
  ASSERT_TRUE(configure_log({}));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const std::string log = text.str();
  for (const char* part :
       {R"("operation":"create")", R"("operation":"runtime_replace")", R"("operation":"runtime_delete")",
        R"("sandbox_id":"a")", R"("credential_binding":"b")", R"("credential_vault_revision":2)",
        R"("status_code":409)", R"("status_code":400)", R"("status_code":204)"}) {
    EXPECT_TRUE(log.contains(part)) << part << " in " << log;
  }
  EXPECT_FALSE(log.contains("s3cret-value")) << log;
}

}  // namespace
}  // namespace osb::egress::testing
