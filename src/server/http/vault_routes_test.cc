// The credential vault of a sandbox through the server, and the operator's entries.

#include <algorithm>
#include <fstream>
#include <sys/stat.h>

#include <boost/json/parse.hpp>

#include "server/credentials/credential_supply.h"
#include "server/http/policy_api_fixture.h"
#include "support/temp_dir.h"

namespace osb::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VaultRoutesTest : public testing::PolicyApiTest {
 protected:
  void SetUp() override {
    PolicyApiTest::SetUp();
    supply_.emplace(io_.get_executor(), *service_, proxy_, catalogue());
    context().credentials = &*supply_;
  }
  void TearDown() override {
    osb::testing::await(io_, supply_->close());
    PolicyApiTest::TearDown();
  }

  void write_key(std::string_view value) {
    const auto path = directory_ / "key";
    std::ofstream(path) << value;
    ::chmod(path.c_str(), 0600);
  }
  credentials::Catalogue catalogue() {
    config::CredentialsSection section;
    credentials::Entry entry;
    entry.name = "model-key";
    entry.provider = "file";
    entry.file = directory_ / "key";
    entry.hosts = {"api.example.com"};
    section.entries.push_back(entry);
    entry.name = "fresh-key";
    entry.refresh = std::chrono::seconds(1);
    section.entries.push_back(entry);
    entry.name = "their-key";
    entry.tenants = {"others"};
    section.entries.push_back(entry);
    return *credentials::Catalogue::make(section);
  }
  static std::string post(const std::string& entry) {
    return R"({"credentials":[{"name":"c","source":{"type":"operator","entry":")" + entry +
           R"("}}],"bindings":[{"name":"b","match":{"hosts":["api.example.com"]},"auth":{"type":"bearer","credential":"c"}}]})";
  }
  std::string vault_of(const std::string& id) { return "/v1/sandboxes/" + id + "/credential-vault"; }
  // The first request with this method whose body has this text, as the policy API has received it.
  Seen wait_for(const std::string& method, const std::string& text = "") {
    const auto found = [&]() -> const Seen* {
      const auto at = std::ranges::find_if(
          seen_, [&](const Seen& each) { return each.method == method && each.body.contains(text); });
      return at == seen_.end() ? nullptr : &*at;
    };
    osb::testing::await(io_, [](VaultRoutesTest& test, auto condition) -> net::awaitable<void> {
      (void)co_await test.asked_.wait_until([&] { return condition() != nullptr; });
    }(*this, found));
    return *found();
  }
  static constexpr std::string_view kShown =
      R"({"revision":4,"credentials":[{"name":"c","sourceType":"operator","entry":"fresh-key","revision":1}]})";

  osb::testing::TempDir directory_;
  std::optional<CredentialSupply> supply_;
};

TEST_F(VaultRoutesTest, RequestsReachTheVaultWithTheStoredToken) {
  const std::string id = make(true);
  const struct {
    const char* method;
    const char* path;
    const char* target;
  } rows[] = {
      {"POST", "", "/credential-vault"},
      {"GET", "", "/credential-vault"},
      {"PATCH", "", "/credential-vault"},
      {"DELETE", "", "/credential-vault"},
      {"GET", "/credentials", "/credential-vault/credentials"},
      {"GET", "/credentials/a%2Fb", "/credential-vault/credentials/a%2Fb"},
      {"GET", "/bindings", "/credential-vault/bindings"},
      {"GET", "/bindings/x%20y", "/credential-vault/bindings/x%20y"},
      {"GET", "/audit", "/credential-vault/audit"},
      {"GET", "/audit?follow=true", "/credential-vault/audit?follow=true"},
  };
  for (const auto& row : rows) {
    const bool writes = row.method == std::string("POST") || row.method == std::string("PATCH");
    const std::string body = writes ? R"({"credentials":[],"bindings":[],"what":1})" : "";
    status_ = 409;
    answer_ = "as the vault says";
    const auto [status, text] = ask(row.method, vault_of(id) + row.path, body, "forged");
    EXPECT_EQ(status, 409) << row.path;
    EXPECT_EQ(text, "as the vault says");
    ASSERT_FALSE(seen_.empty());
    EXPECT_EQ(seen_.back().method, row.method);
    EXPECT_EQ(seen_.back().target, row.target);
    EXPECT_EQ(seen_.back().token, token(id)) << "the caller's own is dropped";
    EXPECT_EQ(seen_.back().key, "") << "the API key stays here";
    EXPECT_EQ(seen_.back().body, body);
  }
}

TEST_F(VaultRoutesTest, SandboxWithoutAPolicyHasNoVault) {
  const auto [status, text] = ask("GET", vault_of(make(false)));
  EXPECT_EQ(status, 400);
  EXPECT_THAT(text, HasSubstr("SANDBOX::API_NOT_SUPPORTED"));
  EXPECT_EQ(ask("GET", vault_of("nothing")).first, 404);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(VaultRoutesTest, BackendThatInterceptsNothingSaysSo) {
  backend_.can.no_credential_proxy = "nothing intercepts here";
  const auto [status, text] = ask("POST", vault_of(make(true)), "{}");
  EXPECT_EQ(status, 400);
  EXPECT_THAT(text, HasSubstr("credential-vault: nothing intercepts here"));
  EXPECT_TRUE(seen_.empty());
}

TEST_F(VaultRoutesTest, TheServerPutsTheValueOfAnEntryIn) {
  write_key("s3cret-1\n");
  const std::string id = make(true);
  status_ = 201;
  EXPECT_EQ(ask("POST", vault_of(id), post("model-key")).first, 201);
  const auto source = boost::json::parse(seen_.back().body).at("credentials").at(0).at("source");
  EXPECT_EQ(source, boost::json::parse(
                        R"({"type":"operator","entry":"model-key","value":"s3cret-1","hosts":["api.example.com"]})"));
}

TEST_F(VaultRoutesTest, EntryOfOthersOrNoneIsForbidden) {
  write_key("s3cret-1");
  const std::string id = make(true);
  for (const char* entry : {"their-key", "unknown", "../key", ""}) {
    const auto [status, text] = ask("POST", vault_of(id), post(entry));
    EXPECT_EQ(status, 403) << entry;
    EXPECT_THAT(text, HasSubstr("CREDENTIALS::NO_ENTRY"));
    EXPECT_THAT(text, Not(HasSubstr("s3cret")));
  }
  EXPECT_TRUE(seen_.empty());
}

TEST_F(VaultRoutesTest, ProviderThatFailsChangesNothing) {
  const auto [status, text] = ask("POST", vault_of(make(true)), post("model-key"));
  EXPECT_EQ(status, 503);
  EXPECT_THAT(text, HasSubstr("CREDENTIALS::SOURCE_FAILED"));
  EXPECT_THAT(text, HasSubstr("model-key"));
  EXPECT_THAT(text, HasSubstr("binding \\\"b\\\""));
  EXPECT_TRUE(seen_.empty());
}

TEST_F(VaultRoutesTest, ValueIsReplacedBeforeItExpires) {
  write_key("s3cret-1");
  const std::string id = make(true);
  status_ = 200;
  answer_ = kShown;
  ASSERT_EQ(ask("POST", vault_of(id), post("fresh-key")).first, 200);
  write_key("s3cret-2");
  const Seen patch = wait_for("PATCH", "s3cret-2");
  EXPECT_EQ(patch.target, "/credential-vault");
  EXPECT_EQ(patch.token, token(id));
  const auto body = boost::json::parse(patch.body);
  EXPECT_EQ(body.at("expectedRevision"), 4);
  const auto& replaced = body.at("credentials").at("replace").at(0);
  EXPECT_EQ(replaced.at("name"), "c");
  EXPECT_EQ(replaced.at("source").at("value"), "s3cret-2");
  EXPECT_EQ(replaced.at("source").at("entry"), "fresh-key");
  EXPECT_TRUE(replaced.at("source").as_object().contains("expiresAt"));
}

TEST_F(VaultRoutesTest, ValueThatTheUserReplacedIsLeftAlone) {
  write_key("s3cret-1");
  const std::string id = make(true);
  answer_ = R"({"revision":5,"credentials":[{"name":"c","sourceType":"inline","revision":5}]})";
  ASSERT_EQ(ask("POST", vault_of(id), post("fresh-key")).first, 200);
  EXPECT_EQ(wait_for("GET").target, "/credential-vault/credentials");
  osb::testing::await(io_, supply_->close());
  EXPECT_EQ(seen_.back().method, "GET");
}

TEST_F(VaultRoutesTest, RestartedServerTakesOverTheVaultsOfRunningSandboxes) {
  write_key("s3cret-3");
  api::CreateSandbox create = wanted();
  create.network_policy = api::NetworkPolicy{"deny", {{"allow", "api.example.com"}}};
  create.credential_proxy = true;
  const std::string id = make(std::move(create));
  answer_ = kShown;
  osb::testing::await(io_, supply_->recover());
  EXPECT_EQ(seen_.back().target, "/credential-vault/credentials");
  EXPECT_EQ(wait_for("PATCH", "s3cret-3").token, token(id));
}

}  // namespace
}  // namespace osb::server
