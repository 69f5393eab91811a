#include "cli/egress/vault_payload.h"

#include <gtest/gtest.h>

#include "yaml/reader.h"

namespace osb::cli {
namespace {

boost::json::value yaml(const std::string& text) {
  auto parsed = yaml::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed.value_or(nullptr);
}

TEST(VaultPayload, CreateNeedsBothLists) {
  const auto contents = parse_vault_create(yaml(R"(
credentials: [{name: gh, source: {value: SECRET}}]
bindings:
  - name: api
    match: {hosts: [api.example.com], ports: [443]}
    auth: {type: customHeaders, headers: [{name: X-A, credential: gh}]}
)"));
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_EQ(contents->credentials[0].value, "SECRET");
  EXPECT_EQ(contents->bindings[0].match.ports, std::vector<int>{443});
  EXPECT_EQ(contents->bindings[0].auth.headers[0].credential, "gh");
  const auto missing = parse_vault_create(yaml("credentials: []"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "Credential vault payload field 'bindings' must be a list.");
}

TEST(VaultPayload, EntriesAndPlaceholdersAreRead) {
  const auto contents = parse_vault_create(yaml(R"(
credentials: [{name: gh, source: {type: operator, entry: github-bot}}]
bindings:
  - name: api
    match: {hosts: [api.example.com]}
    auth: {type: passthrough, substitutions: [{credential: gh, placeholder: __TOKEN__, in: [query, body]}]}
)"));
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_EQ(contents->credentials[0].entry, "github-bot");
  EXPECT_EQ(contents->credentials[0].value, "");
  const auto& substitution = contents->bindings[0].auth.substitutions.at(0);
  EXPECT_EQ(substitution.placeholder, "__TOKEN__");
  EXPECT_EQ(substitution.in, (std::vector<std::string>{"query", "body"}));
  EXPECT_FALSE(parse_vault_create(yaml("credentials: [{name: a, source: {type: file, value: v}}]\nbindings: []")));
  EXPECT_FALSE(parse_vault_create(yaml("credentials: [{name: a, source: {type: operator}}]\nbindings: []")));
}

TEST(VaultPayload, ErrorsNeverHoldASecret) {
  for (const char* text :
       {"credentials: [{name: 5, source: {value: SECRET}}]\nbindings: []",
        "credentials: [{name: a, source: SECRET}]\nbindings: []", "credentials: SECRET\nbindings: []"}) {
    const auto refused = parse_vault_create(yaml(text));
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().message.find("SECRET"), std::string::npos) << refused.error().message;
  }
}

TEST(VaultPayload, PatchTakesBothSpellingsOfTheRevision) {
  for (const char* key : {"expectedRevision", "expected_revision"}) {
    const auto patch = parse_vault_patch(yaml(std::string(key) + ": 3\ncredentials: {delete: [gh]}"));
    ASSERT_TRUE(patch) << patch.error().message;
    EXPECT_EQ(patch->expected_revision, 3);
    EXPECT_EQ(patch->delete_credentials, std::vector<std::string>{"gh"});
  }
  EXPECT_FALSE(parse_vault_patch(yaml("expectedRevision: 3")));
  EXPECT_FALSE(parse_vault_patch(yaml("expectedRevision: 3.5\nbindings: {}")));
}

}  // namespace
}  // namespace osb::cli
