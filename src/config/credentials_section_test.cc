#include <gtest/gtest.h>

#include "config/server_config.h"

namespace osb::config {
namespace {

Result<ServerConfig> parse(const std::string& text) { return parse_server_config(text, "test.toml", {}); }

TEST(CredentialsSection, EveryProviderIsRead) {
  const auto config = parse(R"(
[[credentials.entries]]
name = "deploy-key"
provider = "file"
file = "/etc/keys/deploy"
hosts = ["git.example.com"]
tenants = ["*"]
[[credentials.entries]]
name = "short"
provider = "command"
command = ["/usr/bin/make-token", "--for", "models"]
hosts = ["api.example.com", "*.models.example.com"]
refresh_seconds = 600
timeout_seconds = 20
[[credentials.entries]]
name = "model"
provider = "vault-kv2"
url = "https://vault.example.com:8200"
path = "agents/model"
field = "key"
token_file = "/etc/keys/vault-token"
hosts = ["api.example.com"]
[[credentials.entries]]
name = "oauth"
provider = "oauth2"
url = "https://login.example.com/token"
client_id = "agents"
client_secret_file = "/etc/keys/oauth"
scope = "read write"
hosts = ["api.example.com"]
)");
  ASSERT_TRUE(config) << config.error().message;
  const auto& entries = config->credentials.entries;
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].file, "/etc/keys/deploy");
  EXPECT_EQ(entries[0].tenants, std::vector<std::string>{"*"});
  EXPECT_EQ(entries[1].command.size(), 3u);
  EXPECT_EQ(entries[1].refresh, std::chrono::seconds(600));
  EXPECT_EQ(entries[1].timeout, std::chrono::seconds(20));
  EXPECT_EQ(entries[1].tenants, std::vector<std::string>{"default"});
  EXPECT_EQ(entries[2].mount, "secret");
  EXPECT_EQ(entries[2].field, "key");
  EXPECT_EQ(entries[3].scope, "read write");
}

TEST(CredentialsSection, FaultsNameEntryAndKey) {
  const struct {
    const char* entry;
    const char* error;
  } rows[] = {
      {"{provider='file'}", "each needs a name"},
      {"{name='a b',provider='file'}", "each needs a name"},
      {"{name='e',provider='ftp'}", "entry e: provider: expected"},
      {"{name='e',provider='file',hosts=['a.b']}", "entry e: file: required"},
      {"{name='e',provider='file',file='/f'}", "entry e: hosts: required"},
      {"{name='e',provider='file',file='f',hosts=['a.b']}", "entry e: file: expected an absolute path"},
      {"{name='e',provider='file',file='/f',url='https://x',hosts=['a.b']}", "entry e: url: unknown with the provider"},
      {"{name='e',provider='command',command=['x'],hosts=['a.b']}", "entry e: command: must begin with"},
      {"{name='e',provider='vault-kv2',url='http://v',path='p',token_file='/t',hosts=['a.b']}",
       "entry e: url: expected an https URL"},
      {"{name='e',provider='file',file='/f',hosts=['a.b'],refresh_seconds=-1}", "entry e: refresh_seconds: expected"},
      {"{name='e',provider='file',file='/f',hosts=['a.b']},{name='e',provider='file',file='/f',hosts=['a.b']}",
       "the name e is used twice"},
      {"{name='e',provider='file',file=true,hosts=['a.b']}", "entries.file: expected a string"},
  };
  for (const auto& row : rows) {
    const auto config = parse("[credentials]\nentries = [" + std::string(row.entry) + "]\n");
    ASSERT_FALSE(config) << row.entry;
    EXPECT_TRUE(config.error().message.contains(row.error)) << config.error().message;
  }
}

}  // namespace
}  // namespace osb::config
