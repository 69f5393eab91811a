#include "cli/config/config.h"

#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "cli/config/config_file.h"
#include "cli/config/config_keys.h"
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
  EXPECT_FALSE(config->api_key) << "the environment's key belongs to the environment's domain";
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
  EXPECT_FALSE(config->api_key) << "the general key belongs to the general domain";
  EXPECT_EQ(config->default_timeout, "5m");
  EXPECT_EQ(config->protocol, "https");
  Flags flags;
  flags.profile = "none";
  const auto missing = resolve(flags, {}, text);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no profile 'none'"), std::string::npos);
}

TEST_F(CliConfig, KeyIsSentToItsOwnServerOnly) {
  const std::string both = "[connection]\ndomain='a:1'\napi_key='A'\n[profiles.p]\ndomain='b:2'\napi_key='B'\n";
  const std::string key_only = "[connection]\napi_key='A'\n[profiles.p]\ndomain='b:2'\n";
  struct {
    const char* why;
    std::optional<std::string> flag, profile;
    std::map<std::string, std::string> variables;
    std::string file, key;
  } rows[] = {
      {"the file's own", {}, {}, {}, both, "A"},
      {"the same by option", "a:1", {}, {}, both, "A"},
      {"another by option", "c:3", {}, {}, both, ""},
      {"another port", "a:2", {}, {}, both, ""},
      {"another by variable", {}, {}, {{"OPEN_SANDBOX_DOMAIN", "c:3"}}, both, ""},
      {"the profile's own", {}, "p", {}, both, "B"},
      {"the profile's key for the general server", "a:1", "p", {}, both, ""},
      {"a key alone in the file", "c:3", {}, {}, key_only, "A"},
      {"a key alone, with a profile's domain", {}, "p", {}, key_only, "A"},
      {"variables together", {}, {}, {{"OPEN_SANDBOX_DOMAIN", "c:3"}, {"OPEN_SANDBOX_API_KEY", "E"}}, both, "E"},
      {"variables, another by option",
       "d:4",
       {},
       {{"OPEN_SANDBOX_DOMAIN", "c:3"}, {"OPEN_SANDBOX_API_KEY", "E"}},
       both,
       ""},
      {"a variable alone", "d:4", {}, {{"OPEN_SANDBOX_API_KEY", "E"}}, both, "E"},
      {"from https to http", "http://x:1", {}, {}, "[connection]\ndomain='https://x:1'\napi_key='A'\n", ""},
      {"from http to https", "https://x:1", {}, {}, "[connection]\ndomain='x:1'\napi_key='A'\n", "A"},
      {"localhost", "localhost:1", {}, {}, "[connection]\ndomain='127.0.0.1:1'\napi_key='A'\n", "A"},
  };
  for (const auto& row : rows) {
    Flags flags;
    flags.domain = row.flag;
    flags.profile = row.profile;
    const auto config = resolve(flags, row.variables, row.file);
    ASSERT_TRUE(config) << row.why << ": " << config.error().message;
    EXPECT_EQ(config->api_key.value_or(""), row.key) << row.why;
    EXPECT_EQ(config->withheld.has_value(), row.key.empty()) << row.why;
  }
  Flags named;
  named.domain = "c:3";
  named.api_key = "mine";
  EXPECT_EQ(resolve(named, {}, both)->api_key, "mine");
}

TEST_F(CliConfig, TheFileCanNameADefaultProfile) {
  const std::string text =
      "[connection]\nprofile='p'\ndomain='a'\n[profiles.p]\ndomain='b'\n[profiles.q]\ndomain='c'\n";
  EXPECT_EQ(resolve({}, {}, text)->domain, "b");
  EXPECT_EQ(resolve({}, {}, text)->profile, "p");
  EXPECT_EQ(resolve({}, {{"OPEN_SANDBOX_PROFILE", "q"}}, text)->domain, "c");
  const auto missing = resolve({}, {}, "[connection]\nprofile='gone'\n");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().hint.find("osb config unset connection.profile"), std::string::npos);
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

TEST(ConfigFile, RemovingKeepsTheRest) {
  const std::string text = "# top\n[a]\nx = 1\n# x = 2\ny = 2\n\n[profiles.p]\n# why\nx = 3\n\n[b]\nx = 4\n";
  EXPECT_EQ(unset_in_config(text, "a", "x"),
            "# top\n[a]\n# x = 2\ny = 2\n\n[profiles.p]\n# why\nx = 3\n\n[b]\nx = 4\n");
  EXPECT_EQ(unset_in_config(text, "a", "z"), text);
  EXPECT_EQ(remove_table(text, "profiles.p"), "# top\n[a]\nx = 1\n# x = 2\ny = 2\n# why\n\n[b]\nx = 4\n");
  EXPECT_EQ(remove_table(text, "profiles.q"), text);
}

TEST(ConfigKeys, UnknownNamesTellTheNearest) {
  const auto hint = [](const char* name) {
    const auto found = find_config_key(name);
    return found ? "known" : found.error().hint.substr(0, found.error().hint.find('?'));
  };
  EXPECT_EQ(hint("connection.domain"), "known");
  EXPECT_EQ(hint("profiles.prod.timeout"), "known");
  EXPECT_EQ(hint("connection.domian"), "Did you mean connection.domain");
  EXPECT_EQ(hint("domain"), "Did you mean connection.domain");
  EXPECT_EQ(hint("connection.image"), "Did you mean defaults.image");
  EXPECT_EQ(hint("profiles.prod.colour"), "Did you mean profiles.prod.color");
  EXPECT_EQ(hint("profiles.prod.profile"), "Did you mean profiles.prod.protocol");
}

TEST(ConfigKeys, ValuesThatAreNotAllowedTellWhatIs) {
  struct {
    const char *key, *value, *expected;  // the value to write, or a part of what is said
    bool fine;
  } rows[] = {
      {"connection.domain", "localhost:9090", "localhost:9090", true},
      {"connection.domain", "https://x.example/api", "https://x.example/api", true},
      {"connection.domain", "ftp://x", "http://", false},
      {"connection.domain", "a b", "HOST:PORT", false},
      {"connection.protocol", "https", "https", true},
      {"connection.protocol", "tcp", "http or https", false},
      {"connection.request_timeout", "30", "30", true},
      {"connection.request_timeout", "0", "1 to 86400", false},
      {"connection.request_timeout", "30s", "1 to 86400", false},
      {"connection.use_server_proxy", "Yes", "true", true},
      {"output.color", "blue", "true or false", false},
      {"defaults.timeout", "1h30m", "1h30m", true},
      {"defaults.timeout", "none", "none", true},
      {"defaults.timeout", "soon", "10m", false},
      {"connection.api_key", "a\nb", "control characters", false},
      {"connection.profile", "a b", "name of a profile", false},
  };
  for (const auto& row : rows) {
    const auto value = checked_value(*find_config_key(row.key), row.value);
    ASSERT_EQ(value.has_value(), row.fine) << row.key << " " << row.value;
    const std::string said = value ? *value : value.error().message;
    EXPECT_NE(said.find(row.expected), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace osb::cli
