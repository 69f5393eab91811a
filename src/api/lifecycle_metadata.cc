#include "api/lifecycle_metadata.h"

#include <algorithm>

#include "api/json.h"
#include "api/lifecycle_error.h"
#include "base/json_escape.h"

namespace osb::api {
namespace {

constexpr std::size_t kMaxPrefix = 253;
constexpr std::size_t kMaxName = 63;

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alnum(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }

// ([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?
bool is_dns_name(std::string_view text) {
  for (;;) {
    const std::string_view label = text.substr(0, text.find('.'));
    if (label.empty() || !is_lower(label.front()) || !is_lower(label.back())) return false;
    if (!std::ranges::all_of(label, [](char c) { return is_lower(c) || c == '-'; })) return false;
    if (label.size() == text.size()) return true;
    text.remove_prefix(label.size() + 1);
  }
}

// [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?
bool is_label_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxName || !is_alnum(text.front()) || !is_alnum(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

Failure bad_label(std::string_view where, std::string_view key, std::string_view why) {
  return refuse(Code::InvalidRequest, reason::kInvalidMetadataLabel,
                std::string(where) + ": key " + in_quotes(key) + ": " + std::string(why));
}

Failure reserved(Code code, std::string_view reason, std::string_view where, std::string_view key) {
  return refuse(code, reason,
                std::string(where) + ": key " + in_quotes(key) + ": keys below opensandbox.io/ are reserved");
}

}  // namespace

Result<void> check_label_key(std::string_view key, std::string_view where) {
  std::string_view name = key;
  if (const auto slash = key.find('/'); slash != std::string_view::npos) {
    const std::string_view prefix = key.substr(0, slash);
    name = key.substr(slash + 1);
    if (prefix.empty() || prefix.size() > kMaxPrefix || !is_dns_name(prefix)) {
      return bad_label(where, key, "the part before '/' must be a DNS name in lower case of at most 253 characters");
    }
  }
  if (!is_label_name(name)) {
    return bad_label(
        where, key, "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit");
  }
  return {};
}

Result<void> check_label_value(std::string_view key, std::string_view value, std::string_view where) {
  if (value.empty() || is_label_name(value)) return {};
  return bad_label(where, key,
                   "a value is empty or has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a "
                   "letter or digit");
}

Result<void> check_metadata(const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kReservedLabelPrefix)) {
      return reserved(Code::InvalidRequest, reason::kInvalidMetadataLabel, "/metadata", key);
    }
    if (auto ok = check_label_key(key, "/metadata"); !ok) return ok;
    if (auto ok = check_label_value(key, value, "/metadata"); !ok) return ok;
  }
  return {};
}

Result<MetadataPatch> decode_metadata_patch(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  const json::object* object = value->if_object();
  if (object == nullptr) return unprocessable("body", "expected an object of strings and nulls");
  MetadataPatch patch;
  for (const auto& entry : *object) {
    const std::string key(entry.key());
    if (entry.value().is_null()) {
      patch.emplace(key, std::nullopt);
    } else if (const auto* text = entry.value().if_string()) {
      patch.emplace(key, std::string(text->data(), text->size()));
    } else {
      return unprocessable(join_pointer("", key.substr(0, 80)), "expected a string or null");
    }
  }
  return patch;
}

Result<void> check_metadata_patch(const MetadataPatch& patch) {
  for (const auto& [key, value] : patch) {
    if (key.starts_with(kReservedLabelPrefix)) {
      return reserved(Code::InvalidRequest, reason::kReservedMetadataLabel, "body", key);
    }
  }
  for (const auto& [key, value] : patch) {
    if (!value) continue;
    if (auto ok = check_label_key(key, "body"); !ok) return ok;
    if (auto ok = check_label_value(key, *value, "body"); !ok) return ok;
  }
  return {};
}

void apply_patch(Metadata& metadata, const MetadataPatch& patch) {
  for (const auto& [key, value] : patch) {
    if (value) {
      metadata.insert_or_assign(key, *value);
    } else {
      metadata.erase(key);
    }
  }
}

}  // namespace osb::api
