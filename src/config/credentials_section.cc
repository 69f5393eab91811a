// [[credentials.entries]]: which provider needs which keys.

#include <algorithm>
#include <set>

#include "base/parse_number.h"
#include "base/text.h"
#include "config/sections.h"

namespace osb::config {
namespace {

using Fields = std::map<std::string, std::vector<std::string>>;

constexpr std::string_view kSection = "credentials";
constexpr std::int64_t kLongestRefresh = 30 * 24 * 3600, kLongestTimeout = 300;

struct Provider {
  std::string_view name;
  std::vector<std::string_view> required, optional;
};

const Provider* find_provider(std::string_view name) {
  static const std::vector<Provider> all = {
      {"file", {"file"}, {}},
      {"command", {"command"}, {}},
      {"vault-kv2", {"url", "path", "token_file"}, {"mount", "field", "namespace", "ca_file"}},
      {"oauth2", {"url", "client_id", "client_secret_file"}, {"scope", "audience", "ca_file"}},
  };
  const auto found = std::ranges::find(all, name, &Provider::name);
  return found == all.end() ? nullptr : &*found;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

// Reads one entry. The first fault wins; it names the entry and the key.
class EntryReader {
 public:
  EntryReader(TomlReader& reader, const Fields& fields) : reader_(reader), fields_(fields) {}

  CredentialEntry read() {
    CredentialEntry out;
    out.name = text("name");
    if (!is_name(out.name)) {
      reader_.reject(kSection, "entries", "each needs a name of 1 to 64 letters, digits, '-', '_' and '.'");
      return out;
    }
    name_ = out.name;
    out.provider = text("provider");
    const Provider* provider = find_provider(out.provider);
    if (provider == nullptr) {
      wrong("provider", "expected \"file\", \"command\", \"vault-kv2\" or \"oauth2\"");
      return out;
    }
    check_keys(*provider);
    out.hosts = list("hosts");
    if (out.hosts.empty()) wrong("hosts", "required: the hosts that the value may go to");
    if (fields_.contains("tenants")) out.tenants = list("tenants");
    out.refresh = seconds("refresh_seconds", 0, kLongestRefresh, out.refresh);
    out.timeout = seconds("timeout_seconds", 1, kLongestTimeout, out.timeout);
    out.file = path("file");
    out.command = list("command");
    if (!out.command.empty() && !out.command.front().starts_with('/')) {
      wrong("command", "must begin with the absolute path of a program");
    }
    out.url = text("url");
    if (!out.url.empty() && !out.url.starts_with("https://")) wrong("url", "expected an https URL");
    out.ca_file = path("ca_file");
    if (fields_.contains("mount")) out.mount = text("mount");
    out.path = text("path");
    if (fields_.contains("field")) out.field = text("field");
    out.name_space = text("namespace");
    out.token_file = path("token_file");
    out.client_id = text("client_id");
    out.client_secret_file = path("client_secret_file");
    out.scope = text("scope");
    out.audience = text("audience");
    return out;
  }

 private:
  void wrong(std::string_view key, std::string_view why) {
    reader_.reject(kSection, "entries", "entry " + name_ + ": " + std::string(key) + ": " + std::string(why));
  }
  void check_keys(const Provider& provider) {
    std::set<std::string_view> known = {"name", "provider", "hosts", "tenants", "refresh_seconds", "timeout_seconds"};
    known.insert(provider.required.begin(), provider.required.end());
    known.insert(provider.optional.begin(), provider.optional.end());
    for (const auto& [key, values] : fields_) {
      if (!known.contains(key)) wrong(key, "unknown with the provider " + std::string(provider.name));
    }
    for (const std::string_view key : provider.required) {
      if (list(key).empty() || list(key).front().empty()) wrong(key, "required");
    }
  }
  std::vector<std::string> list(std::string_view key) const {
    const auto found = fields_.find(std::string(key));
    return found == fields_.end() ? std::vector<std::string>() : found->second;
  }
  std::string text(std::string_view key) {
    const auto values = list(key);
    if (values.size() > 1) wrong(key, "expected one string");
    return values.empty() ? "" : values.front();
  }
  std::filesystem::path path(std::string_view key) {
    std::string given = text(key);
    if (!given.empty() && !given.starts_with('/')) wrong(key, "expected an absolute path");
    return given;
  }
  std::chrono::seconds seconds(std::string_view key, std::int64_t min, std::int64_t max,
                               std::chrono::seconds fallback) {
    if (!fields_.contains(std::string(key))) return fallback;
    const auto number = parse_number<std::int64_t>(text(key));
    if (number && *number >= min && *number <= max) return std::chrono::seconds(*number);
    wrong(key, "expected an integer from " + std::to_string(min) + " to " + std::to_string(max));
    return fallback;
  }

  TomlReader& reader_;
  const Fields& fields_;
  std::string name_;
};

}  // namespace

void read_credentials(TomlReader& reader, CredentialsSection& out) {
  std::set<std::string> names;
  for (const Fields& fields : reader.tables_of_lists(kSection, "entries")) {
    CredentialEntry entry = EntryReader(reader, fields).read();
    if (reader.failed()) return;
    if (!names.insert(entry.name).second) {
      return reader.reject(kSection, "entries", "the name " + entry.name + " is used twice");
    }
    out.entries.push_back(std::move(entry));
  }
}

}  // namespace osb::config
