#include "vault/source.h"

#include <algorithm>

#include "policy/text.h"
#include "vault/binding.h"

namespace osb::vault {
namespace {

constexpr std::size_t kLongestEntry = 64;
constexpr std::size_t kMostHosts = 64;

void read_details(api::ObjectReader& reader, Source& out) {
  for (const std::string& each : reader.string_list("hosts").value_or(std::vector<std::string>())) {
    if (out.hosts.size() == kMostHosts) return reader.reject("hosts", "at most 64");
    auto host = parse_binding_host(each);
    if (!host) return reader.reject("hosts", host.error().message);
    out.hosts.push_back(std::move(*host));
  }
  if (out.hosts.empty()) reader.reject("hosts", "required: the hosts that may get the value");
  const auto expires = reader.optional_string("expiresAt");
  if (!expires) return;
  const auto when = parse_timestamp(*expires);
  if (!when) return reader.reject("expiresAt", when.error().message);
  out.expires = *when;
}

}  // namespace

bool Source::permits(std::string_view host) const {
  if (hosts.empty()) return true;
  return std::ranges::any_of(hosts, [&](std::string_view each) {
    if (each == host) return true;
    const std::string_view suffix = each.substr(1);
    return each.starts_with("*.") && host.size() > suffix.size() && host.ends_with(suffix);
  });
}

Source read_source(api::ObjectReader& reader) {
  Source out;
  const auto given = reader.optional_string("type").value_or("");
  const std::string_view type = policy::trimmed(given);
  if (type.empty() || type == "inline") {
    for (const char* name : {"entry", "hosts", "expiresAt"}) {
      if (reader.find(name) != nullptr) reader.reject(name, "only with the type operator");
    }
    return out;
  }
  if (type != "operator") {
    reader.reject("type", "only inline and operator are supported");
    return out;
  }
  out.entry = policy::trimmed(reader.required_string("entry"));
  if (out.entry.empty() || out.entry.size() > kLongestEntry) reader.reject("entry", "expected 1 to 64 characters");
  const api::json::value* value = reader.find("value");
  if (value == nullptr) {
    reader.reject("value", "missing: the server fetches it; use its route /sandboxes/{id}/credential-vault");
    return out;
  }
  read_details(reader, out);
  return out;
}

void add_to(api::json::object& credential, const Source& source) {
  credential["sourceType"] = source.type();
  if (!source.is_operators()) return;
  credential["entry"] = source.entry;
  credential["hosts"] = api::json::array(source.hosts.begin(), source.hosts.end());
  if (source.expires) credential["expiresAt"] = format_timestamp(*source.expires);
}

Source read_stored_source(api::ObjectReader& credential) {
  Source out;
  if (credential.optional_string("sourceType").value_or("inline") != "operator") return out;
  out.entry = credential.required_string("entry");
  read_details(credential, out);
  return out;
}

}  // namespace osb::vault
