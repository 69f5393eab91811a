#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/server_config.h"

namespace osb::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kDocker = "[runtime]\ntype = \"docker\"\nexecd_image = \"e\"\n";

std::string refused(std::string_view toml, const Environment& environment = {}) {
  const auto config = parse_server_config(toml, "server.toml", environment);
  return config ? "" : config.error().message;
}

std::vector<std::string> warnings(std::string_view toml) {
  const auto config = parse_server_config(toml, "server.toml", {});
  return config ? config->warnings : std::vector<std::string>{config.error().message};
}

TEST(UnknownKeys, StopTheStartWithTheNearestKnownOne) {
  const struct {
    const char *toml, *message;
  } rows[] = {
      {"[server]\nprot = 1", "server.toml:2: [server] prot: unknown key; did you mean [server] port?"},
      {"[server]\nallowed_host_paths = []", "did you mean [storage] allowed_host_paths?"},
      {"[server]\nsomething_else_entirely = 1", "[server] something_else_entirely: unknown key ([server] unknown_keys"},
      {"[sever]\nport = 1", "server.toml:1: [sever]: unknown section; did you mean [server]?"},
      {"[store.postgres]\ndsn = ''", "[store.postgres]: unknown section; did you mean [store.postgresql]?"},
      {"prot = 1", "server.toml:1: prot: unknown key"},
      {"[renew_intent]\nredis.dns = 'x'",
       "[renew_intent.redis] dns: unknown key; did you mean [renew_intent.redis] dsn?"},
      {"[server]\nport = 80\n[docker]\nx = { y = 1 }", "[docker.x]: unknown section"},
  };
  for (const auto& row : rows) EXPECT_THAT(refused(row.toml), HasSubstr(row.message));
}

TEST(UnknownKeys, AreWarningsWhereTheOperatorSaysSo) {
  EXPECT_THAT(
      warnings("[server]\nunknown_keys = 'warn'\nprot = 1\n[sever]\na = 1\n"),
      testing::UnorderedElementsAre(HasSubstr("[server] prot: unknown key"), HasSubstr("[sever]: unknown section")));
}

TEST(UnknownKeys, RemovedOnesWarn) {
  EXPECT_THAT(warnings("[pause]\nmode = 'x'\n"), ElementsAre(HasSubstr("[pause]: Removed")));
  EXPECT_THAT(warnings("[runtime]\ntype='kubernetes'\nexecd_image='e'\n[kubernetes]\ninformer_enabled = true\n"),
              ElementsAre(HasSubstr("[kubernetes] informer_enabled: Removed")));
}

TEST(MissingParts, AreRefusedByName) {
  const struct {
    const char *toml, *message;
  } rows[] = {
      {"[tenants]", "[tenants]: this server has no tenants yet"},
      {"[otel]\nenabled = true", "[otel] enabled: this server has no OTLP export"},
      {"[store]\ntype = 'postgresql'", "[store] type: expected one of \"sqlite\""},
      {"[store.postgresql]\ndsn = 'postgres://u:secret@h'", "[store.postgresql] dsn: this server has no PostgreSQL"},
      {"[egress.upstream_proxy]\nca_secret_name = 'x'",
       "[egress.upstream_proxy] ca_secret_name: this server has no proxy for the connections of sidecars on "
       "kubernetes"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(refused(row.toml), HasSubstr(row.message));
    EXPECT_THAT(refused(row.toml), testing::Not(HasSubstr("secret@")));
  }
  EXPECT_EQ(refused("[otel]\nenabled = false\nexport_interval_millis = 60000\n[store.postgresql]\nmax_pool_size = 10"),
            "")
      << "defaults ask for nothing";
  Environment environment;
  environment.variables["OPENSANDBOX_SECURE_ACCESS_KEYS"] = "a=c2VjcmV0";
  EXPECT_THAT(refused("", environment), HasSubstr("OPENSANDBOX_SECURE_ACCESS_KEYS: this server has no gateway yet"));
  Environment tenants;
  tenants.variables["SANDBOX_TENANTS_CONFIG_PATH"] = "/tenants.toml";
  EXPECT_THAT(refused("", tenants), HasSubstr("SANDBOX_TENANTS_CONFIG_PATH: this server has no tenants yet"));
}

TEST(OtherBackends, KeysOfOneWarnOrAreRefusedOnAnother) {
  EXPECT_THAT(warnings("[docker]\nnetwork_mode = 'host'"),
              ElementsAre(HasSubstr("[docker] network_mode: means nothing with [runtime] type = \"native\"")));
  EXPECT_THAT(warnings("[proxy]\nresolve_internal = false"), ElementsAre(HasSubstr("[proxy] resolve_internal")));
  EXPECT_THAT(warnings(std::string(kDocker) + "[native]\nsocket = '/s'"), ElementsAre(HasSubstr("[native] socket")));
  EXPECT_THAT(refused("[docker]\npublish_host = '192.0.2.1'"), HasSubstr("[docker] publish_host: means nothing"));
  EXPECT_THAT(refused("[docker]\nseccomp_profile = '/p.json'"), HasSubstr("[docker] seccomp_profile: means nothing"));
  EXPECT_THAT(warnings("[docker]\nnetwork_mode = 'bridge'\npublish_host = ''\nsandbox_env = {}\nsandbox_binds = []"),
              ElementsAre())
      << "defaults ask for nothing";
}

}  // namespace
}  // namespace osb::config
