#include "policy/templates/catalogue.h"

#include <set>

#include "base/json_escape.h"

namespace osb::policy {

std::string_view embedded(std::string_view name);

namespace {

constexpr std::string_view kBuiltin = "catalogue.toml";

Result<Capability> read_capability(const TomlFile& file, const TomlValue& table) {
  if (auto ok = file.check_keys(table, {"name", "description", "includes", "allow"}); !ok) return Failure(ok.error());
  Capability out;
  out.source = file.source();
  out.place = table.place;
  for (auto [key, field] : {std::pair("name", &out.name), std::pair("description", &out.description)}) {
    auto text = file.string(table, key);
    if (!text) return Failure(text.error());
    *field = std::move(*text);
  }
  if (out.name.empty()) return file.refuse(table.place, "capability: name is required");
  if (!is_policy_name(out.name))
    return file.refuse(table.find("name")->place, in_quotes(out.name) + ": " + std::string(kPolicyNameRule));
  auto includes = file.array(table, "includes", TomlValue::Kind::String, "names of capabilities");
  if (!includes) return Failure(includes.error());
  for (const TomlValue& item : **includes) out.includes.push_back({item.text, item.place});
  auto allow = file.array(table, "allow", TomlValue::Kind::String, "targets");
  if (!allow) return Failure(allow.error());
  for (const TomlValue& item : **allow) {
    auto rule = make_rule(Action::Allow, item.text);
    if (!rule) return file.refuse(item.place, in_quotes(item.text) + ": " + rule.error().message);
    out.allow.push_back(std::move(*rule));
  }
  if (out.includes.empty() && out.allow.empty())
    return file.refuse(table.place, "capability " + out.name + ": needs allow or includes");
  return out;
}

bool reaches(const Catalogue& all, std::string_view from, std::string_view target, std::set<std::string_view>& seen) {
  const Capability* capability = all.find(from);
  if (capability == nullptr || !seen.insert(capability->name).second) return false;
  for (const auto& include : capability->includes) {
    if (include.name == target || reaches(all, include.name, target, seen)) return true;
  }
  return false;
}

Result<void> check_includes(const Catalogue& all) {
  for (const auto& [name, capability] : all.all()) {
    for (const auto& include : capability.includes) {
      const std::string where = place_text(capability.source, include.place) + ": ";
      if (all.find(include.name) == nullptr) {
        return fail(Code::InvalidRequest,
                    where + "unknown capability " + in_quotes(include.name) + did_you_mean(include.name, all.names()));
      }
      std::set<std::string_view> seen;
      if (include.name == name || reaches(all, include.name, name, seen))
        return fail(Code::InvalidRequest, where + "capability " + name + " includes itself through " + include.name);
    }
  }
  return {};
}

void collect(const Catalogue& all, std::string_view name, std::set<std::string_view>& seen,
             std::vector<Catalogue::Part>& out) {
  const Capability* capability = all.find(name);
  if (capability == nullptr || !seen.insert(capability->name).second) return;
  for (const Rule& rule : capability->allow) out.push_back({capability, &rule});
  for (const auto& include : capability->includes) collect(all, include.name, seen, out);
}

}  // namespace

bool is_policy_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > kLongest || !plain(name.front())) return false;
  for (const char c : name) {
    if (!plain(c) && c != '.' && c != '-' && c != '_') return false;
  }
  return true;
}

const Catalogue& Catalogue::builtin() {
  // A test parses it: value() cannot throw.
  static const Catalogue kCatalogue = Catalogue::parse(embedded(kBuiltin), "built-in catalogue", {}).value();
  return kCatalogue;
}

Result<Catalogue> Catalogue::parse(std::string_view text, std::string source, const Catalogue& base) {
  auto file = TomlFile::parse(text, std::move(source));
  if (!file) return Failure(file.error());
  if (auto ok = file->check_keys(file->root(), {"capability"}); !ok) return Failure(ok.error());
  auto list = file->array(file->root(), "capability", TomlValue::Kind::Table, "tables: [[capability]]");
  if (!list) return Failure(list.error());
  Catalogue out = base;
  std::set<std::string> here;
  for (const TomlValue& table : **list) {
    auto capability = read_capability(*file, table);
    if (!capability) return Failure(capability.error());
    if (!here.insert(capability->name).second)
      return file->refuse(table.place, "capability " + capability->name + " is defined twice");
    std::string name = capability->name;
    out.all_.insert_or_assign(std::move(name), std::move(*capability));
  }
  if (auto ok = check_includes(out); !ok) return Failure(ok.error());
  return out;
}

const Capability* Catalogue::find(std::string_view name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<std::string_view> Catalogue::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, capability] : all_) out.push_back(name);
  return out;
}

std::vector<Catalogue::Part> Catalogue::rules(std::string_view name) const {
  std::vector<Part> out;
  std::set<std::string_view> seen;
  collect(*this, name, seen, out);
  return out;
}

}  // namespace osb::policy
