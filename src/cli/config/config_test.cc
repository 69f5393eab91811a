#include "cli/config/config.h"

#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "cli/config/config_file.h"
#include "support/temp_dir.h"

namespace osb::cli {
namespace {

Environment with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional<std::string>(found->second) : std::nullopt;
  };
}

class CliConfig : public ::testing::Test {
 protected:
  Expected<Config> resolve(const Flags& flags, std::map<std::string, std::string> variables, const std::string& text) {
    const auto path = directory_.path() / "config.toml";
    std::ofstream(path) << text;
    return resolve_config(flags, with(std::move(variables)), path);
  }

  testing::TempDir directory_;
};

TEST_F(CliConfig, FirstHitWins) {
  Flags flags;
  flags.domain = "flag";
  const auto config = resolve(flags,
                              {{"OPEN_SANDBOX_DOMAIN", "env"},
                               {"OPEN_SANDBOX_API_KEY", "env-key"},
                               {"OPEN_SANDBOX_REQUEST_TIMEOUT", "many"},
                               {"OPEN_SANDBOX_USE_SERVER_PROXY", "Yes"}},
                              "[connection]\ndomain='file'\napi_key='file-key'\nrequest_timeout=7\n"
                              "use_server_proxy=false\n[output]\ncolor=false\n[defaults]\nimage='python:3.12'\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->domain, "flag");
  EXPECT_EQ(config->api_key, "env-key");
  EXPECT_EQ(config->request_timeout, 7) << "a bad number in the environment is ignored";
  EXPECT_TRUE(config->use_server_proxy);
  EXPECT_FALSE(config->color);
  EXPECT_EQ(config->default_image, "python:3.12");
  EXPECT_EQ(config->protocol, "http");
}

TEST_F(CliConfig, ProfileStandsBeforeTheGeneralTables) {
  const std::string text =
      "[connection]\ndomain='a'\napi_key='general'\n[profiles.stage]\ndomain='b'\ntimeout='5m'\nprotocol='https'\n";
  const auto config = resolve({}, {{"OPEN_SANDBOX_PROFILE", "stage"}}, text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->domain, "b");
  EXPECT_EQ(config->api_key, "general") << "what the profile does not say";
  EXPECT_EQ(config->default_timeout, "5m");
  EXPECT_EQ(config->protocol, "https");
  Flags flags;
  flags.profile = "none";
  const auto missing = resolve(flags, {}, text);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no profile 'none'"), std::string::npos);
}

TEST_F(CliConfig, NoFileIsAnEmptyOneAndABrokenOneAnError) {
  EXPECT_TRUE(resolve_config({}, with({}), directory_.path() / "nothing"));
  const auto broken = resolve({}, {}, "[connection\n");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().hint.find("config init --force"), std::string::npos);
  EXPECT_EQ(broken.error().exit_code, 1);
}

TEST_F(CliConfig, KeysAreMasked) {
  EXPECT_EQ(mask_key("abcd"), "****");
  EXPECT_EQ(mask_key("abcdef"), "ab**ef");
}

TEST(ConfigFile, SettingKeepsCommentsAndOrder) {
  const auto set = [](std::string_view text, std::string_view key, std::string_view value) {
    const auto changed = set_in_config(text, key, value);
    return changed ? *changed : "error: " + changed.error().message;
  };
  struct {
    const char* why;
    const char *before, *key, *value, *after;
  } rows[] = {
      {"an existing line", "[a]\nx = 1  # why\ny = 2\n", "a.x", "true", "[a]\nx = true  # why\ny = 2\n"},
      {"a commented-out line", "[a]\n# x = 1\n[b]\n# x = 2\n", "b.x", "9", "[a]\n# x = 1\n[b]\nx = 9\n"},
      {"a new line in the table", "[a]\ny = 1\n\n[b]\n", "a.x", "0.5", "[a]\ny = 1\nx = 0.5\n\n[b]\n"},
      {"a new table", "[a]\n", "b.x", "v w", "[a]\n\n[b]\nx = \"v w\"\n"},
      {"an empty file", "", "b.x", "-3", "[b]\nx = -3\n"},
      {"a '#' in a string is no comment", "[a]\nx = \"#1\" # c\n", "a.x", "t\"q\\", "[a]\nx = \"t\\\"q\\\\\" # c\n"},
      {"text stays text", "[connection]\n", "connection.api_key", "123", "[connection]\napi_key = \"123\"\n"},
      {"a number TOML does not know", "[a]\n", "a.x", "007", "[a]\nx = \"007\"\n"},
      {"a profile", "[a]\n", "profiles.p.domain", "h:1", "[a]\n\n[profiles.p]\ndomain = \"h:1\"\n"},
      {"no table", "", "x", "1", "error: Key must be in 'section.field' format (e.g. connection.domain)."},
      {"a key that is none", "", "a.b c", "1",
       "error: Key must be in 'section.field' format (e.g. connection.domain)."},
  };
  for (const auto& row : rows) EXPECT_EQ(set(row.before, row.key, row.value), row.after) << row.why;
}

}  // namespace
}  // namespace osb::cli
