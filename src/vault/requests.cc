#include "vault/requests.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "policy/text.h"
#include "vault/wiping_resource.h"

namespace osb::vault {
namespace {

namespace json = api::json;
using api::ObjectReader;

constexpr api::ReadOptions kReading{.ignore_case = true};
constexpr std::size_t kLongestName = 4096;

std::string read_name(ObjectReader& reader) {
  std::string name(policy::trimmed(reader.optional_string("name").value_or("")));
  if (name.empty()) reader.reject("name", "required");
  if (name.size() > kLongestName) reader.reject("name", "longer than 4096 bytes");
  return name;
}

// Collects the values of a body, to lock them together. The texts point into the JSON value.
class Values {
 public:
  std::vector<NewCredential> read_list(ObjectReader& reader, std::string_view field) {
    std::vector<NewCredential> out;
    reader.array(field, [&](ObjectReader& each) {
      if (out.size() == kMostCredentials) return each.reject("", "at most 256 credentials");
      out.push_back(read(each));
    });
    return out;
  }

  // The values into the credentials, which come in the order in which they were read.
  Result<void> lock(std::initializer_list<std::vector<NewCredential>*> lists) {
    auto secrets = Secret::lock(values_);
    if (!secrets) return Failure(secrets.error());
    auto next = secrets->begin();
    for (auto* list : lists) {
      for (NewCredential& each : *list) each.value = std::move(*next++);
    }
    return {};
  }

 private:
  NewCredential read(ObjectReader& reader) {
    reader.refuse_unknown({"name", "source"});
    NewCredential out{.name = read_name(reader)};
    std::string_view value;
    const bool given = reader.object("source", [&](ObjectReader& source) {
      source.refuse_unknown({"type", "value", "entry", "hosts", "expiresAt"});
      out.source = read_source(source);
      value = read_value(source);
    });
    if (!given) reader.reject("source", "required");
    values_.push_back(value);
    return out;
  }

  static std::string_view read_value(ObjectReader& source) {
    const json::value* value = source.find("value");
    const json::string* text = value == nullptr ? nullptr : value->if_string();
    if (text == nullptr || text->empty()) {
      source.reject("value", "required, a string that is not empty");
      return {};
    }
    const std::string_view out(text->data(), text->size());
    if (has_control_byte(out)) source.reject("value", "control characters are not allowed");
    return out;
  }

  std::vector<std::string_view> values_;
};

std::vector<Binding> read_bindings(ObjectReader& reader, std::string_view field, const BindingRules& rules) {
  std::vector<Binding> out;
  reader.array(field, [&](ObjectReader& each) {
    if (out.size() == kMostBindings) return each.reject("", "at most 256 bindings");
    out.push_back(read_binding(each, rules));
  });
  return out;
}

template <typename Item>
void refuse_duplicates(ObjectReader& reader, std::string_view field, const std::vector<Item>& items) {
  std::set<std::string_view> seen;
  for (const Item& each : items) {
    if (!seen.insert(each.name).second) return reader.reject(field, "the name \"" + each.name + "\" occurs twice");
  }
}

// A name may occur once in all operations of a set.
template <typename Item>
void check_changes(ObjectReader& reader, Changes<Item>& changes) {
  std::set<std::string_view> seen;
  const auto once = [&](std::string_view field, const std::string& name) {
    if (!seen.insert(name).second) reader.reject(field, "the name \"" + name + "\" occurs in several operations");
  };
  for (std::string& name : changes.remove) {
    name = policy::trimmed(name);
    if (name.empty()) reader.reject("delete", "a name is blank");
    once("delete", name);
  }
  for (const Item& each : changes.replace) once("replace", each.name);
  for (const Item& each : changes.add) once("add", each.name);
}

std::vector<std::string> read_names(ObjectReader& reader) {
  return reader.string_list("delete").value_or(std::vector<std::string>());
}

Result<json::value> parse(std::string_view body, WipingResource& memory) {
  if (body.size() > kMaxBody) return fail(Code::InvalidRequest, "body: larger than 1 MiB");
  return api::parse_json(body, {.max_depth = 16, .ignore_trailing = true, .storage = json::storage_ptr(&memory)});
}

}  // namespace

Result<CreateRequest> parse_create(std::string_view body, const BindingRules& rules) {
  WipingResource memory;
  const auto value = parse(body, memory);
  if (!value) return Failure(value.error());
  CreateRequest out;
  Values values;
  ObjectReader reader(*value, kReading);
  reader.refuse_unknown({"credentials", "bindings"});
  out.credentials = values.read_list(reader, "credentials");
  refuse_duplicates(reader, "credentials", out.credentials);
  out.bindings = read_bindings(reader, "bindings", rules);
  refuse_duplicates(reader, "bindings", out.bindings);
  if (auto ok = reader.finish(); !ok) return Failure(ok.error());
  if (auto locked = values.lock({&out.credentials}); !locked) return Failure(locked.error());
  return out;
}

Result<PatchRequest> parse_patch(std::string_view body, const BindingRules& rules) {
  WipingResource memory;
  const auto value = parse(body, memory);
  if (!value) return Failure(value.error());
  PatchRequest out;
  Values values;
  ObjectReader reader(*value, kReading);
  reader.refuse_unknown({"expectedRevision", "credentials", "bindings"});
  out.expected_revision = reader.optional_int64("expectedRevision");
  reader.object("credentials", [&](ObjectReader& set) {
    set.refuse_unknown({"add", "replace", "delete"});
    out.credentials.add = values.read_list(set, "add");
    out.credentials.replace = values.read_list(set, "replace");
    out.credentials.remove = read_names(set);
    check_changes(set, out.credentials);
  });
  reader.object("bindings", [&](ObjectReader& set) {
    set.refuse_unknown({"add", "replace", "delete"});
    out.bindings.add = read_bindings(set, "add", rules);
    out.bindings.replace = read_bindings(set, "replace", rules);
    out.bindings.remove = read_names(set);
    check_changes(set, out.bindings);
  });
  if (auto ok = reader.finish(); !ok) return Failure(ok.error());
  if (auto locked = values.lock({&out.credentials.add, &out.credentials.replace}); !locked) {
    return Failure(locked.error());
  }
  return out;
}

}  // namespace osb::vault
