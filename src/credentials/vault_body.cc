#include "credentials/vault_body.h"

#include <array>

#include <boost/json/serializer.hpp>

#include "http/headers.h"
#include "policy/text.h"

namespace osb::credentials {
namespace {

namespace json = api::json;

// Of several spellings of a key the last that is not null counts, as for the vault.
json::value* find(json::object& object, std::string_view key) {
  json::value* found = nullptr;
  for (auto& each : object) {
    if (http::iequals(each.key(), key) && !each.value().is_null()) found = &each.value();
  }
  return found;
}

std::string text_of(json::object& object, std::string_view key) {
  const json::value* found = find(object, key);
  const json::string* text = found == nullptr ? nullptr : found->if_string();
  return text == nullptr ? "" : std::string(policy::trimmed({text->data(), text->size()}));
}

template <typename F>
void for_each_object(json::value* list, F take) {
  if (list == nullptr || !list->is_array()) return;
  for (json::value& each : list->get_array()) {
    if (each.is_object()) take(each.get_object());
  }
}

// The lists of a POST are arrays; those of a PATCH are in objects with add and replace.
template <typename F>
void for_each_item(json::object& root, std::string_view set, F take) {
  json::value* found = find(root, set);
  if (found == nullptr) return;
  for_each_object(found, take);
  if (!found->is_object()) return;
  for (const char* operation : {"add", "replace"}) for_each_object(find(found->get_object(), operation), take);
}

bool uses(json::object& binding, const std::string& credential) {
  bool found = false;
  const auto look = [&](json::object& item) { found = found || text_of(item, "credential") == credential; };
  json::value* auth = find(binding, "auth");
  if (auth == nullptr || !auth->is_object()) return false;
  look(auth->get_object());
  for (const char* list : {"headers", "substitutions"}) for_each_object(find(auth->get_object(), list), look);
  for_each_object(find(binding, "substitutions"), look);
  return found;
}

void drop(json::object& object, std::string_view key) {
  std::vector<std::string> spellings;
  for (const auto& each : object) {
    if (http::iequals(each.key(), key)) spellings.emplace_back(each.key());
  }
  for (const std::string& each : spellings) object.erase(each);
}

}  // namespace

Result<std::unique_ptr<VaultBody>> VaultBody::parse(std::string_view text) {
  std::unique_ptr<VaultBody> out(new VaultBody());
  auto value =
      api::parse_json(text, {.max_depth = 16, .ignore_trailing = true, .storage = json::storage_ptr(&out->memory_)});
  if (!value) return Failure(value.error());
  out->value_.emplace(std::move(*value));
  if (out->value_->is_object()) out->collect(out->value_->get_object());
  return out;
}

void VaultBody::collect(json::object& root) {
  for_each_item(root, "credentials", [&](json::object& credential) {
    json::value* source = find(credential, "source");
    if (source == nullptr || !source->is_object()) return;
    if (text_of(source->get_object(), "type") != "operator") return;
    Named one{.credential = text_of(credential, "name"),
              .entry = text_of(source->get_object(), "entry"),
              .bindings = {},
              .source = &source->get_object()};
    for_each_item(root, "bindings", [&](json::object& binding) {
      if (uses(binding, one.credential)) {
        one.bindings += (one.bindings.empty() ? "" : ",") + text_of(binding, "name");
      }
    });
    named_.push_back(std::move(one));
  });
}

void VaultBody::fill(const Named& named, const Entry& entry, const Fetched& fetched) {
  json::object& source = *named.source;
  for (const char* key : {"type", "entry", "value", "hosts", "expiresAt"}) drop(source, key);
  source["type"] = "operator";
  source["entry"] = entry.name;
  const std::string_view value = fetched.value.view();
  source["value"] = json::string(value.begin(), value.end(), source.storage());
  json::array hosts(source.storage());
  for (const std::string& host : entry.hosts) hosts.emplace_back(host);
  source["hosts"] = std::move(hosts);
  if (fetched.expires) source["expiresAt"] = format_timestamp(*fetched.expires);
}

std::string VaultBody::serialize() const {
  // Twice over the same value: growing a string would leave copies of it behind.
  std::array<char, 4096> piece;
  std::string out;
  for (const bool measure : {true, false}) {
    json::serializer serializer;
    serializer.reset(&*value_);
    std::size_t size = 0;
    while (!serializer.done()) {
      const json::string_view part = serializer.read(piece.data(), piece.size());
      size += part.size();
      if (!measure) out.append(part.data(), part.size());
    }
    if (measure) out.reserve(size);
  }
  vault::wipe(piece.data(), piece.size());
  return out;
}

}  // namespace osb::credentials
