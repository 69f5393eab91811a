#include "policy/templates/template.h"

#include <algorithm>

#include "base/json_escape.h"
#include "policy/templates/catalogue.h"
#include "policy/text.h"

namespace osb::policy {
namespace {

constexpr std::size_t kMaxPorts = 256;

Result<Action> read_action(const TomlFile& file, const TomlValue& table, std::string_view key, TomlPlace place) {
  const auto text = file.string(table, key);
  if (!text) return Failure(text.error());
  if (*text == "allow") return Action::Allow;
  if (*text == "deny") return Action::Deny;
  const TomlValue* value = table.find(key);
  if (value == nullptr) return file.refuse(place, std::string(key) + ": required, \"allow\" or \"deny\"");
  return file.refuse(value->place, std::string(key) + ": " + in_quotes(*text) + " is neither allow nor deny");
}

Result<std::vector<std::uint16_t>> read_ports(const TomlFile& file, const TomlValue& table) {
  const auto list = file.array(table, "ports", TomlValue::Kind::Integer, "ports");
  if (!list) return Failure(list.error());
  std::vector<std::uint16_t> out;
  for (const TomlValue& item : **list) {
    if (item.number < 1 || item.number > 65535)
      return file.refuse(item.place, "ports: a port is a number from 1 to 65535");
    if (out.size() == kMaxPorts) return file.refuse(item.place, "ports: at most 256 ports");
    out.push_back(static_cast<std::uint16_t>(item.number));
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

Result<Rule> read_rule(const TomlFile& file, const TomlValue& table) {
  if (auto ok = file.check_keys(table, {"action", "target", "ports"}); !ok) return Failure(ok.error());
  const auto action = read_action(file, table, "action", table.place);
  if (!action) return Failure(action.error());
  auto ports = read_ports(file, table);
  if (!ports) return Failure(ports.error());
  const TomlValue* target = table.find("target");
  if (target == nullptr) {
    if (ports->empty()) return file.refuse(table.place, "target: required; a rule without one needs ports");
    return Rule{.action = *action, .text = {}, .target = AnyAddress{}, .ports = std::move(*ports)};
  }
  const auto text = file.string(table, "target");
  if (!text) return Failure(text.error());
  auto rule = make_rule(*action, trimmed(*text));
  if (!rule) return file.refuse(target->place, "target: " + in_quotes(*text) + ": " + rule.error().message);
  if (!ports->empty() && std::holds_alternative<NameTarget>(rule->target)) {
    return file.refuse(table.find("ports")->place,
                       "ports: only allowed for addresses and networks, " + in_quotes(*text) + " is a name");
  }
  rule->ports = std::move(*ports);
  return rule;
}

Result<void> read_overrides(const TomlFile& file, Template& out) {
  const auto overrides = file.table(file.root(), "overrides");
  if (!overrides) return Failure(overrides.error());
  if (*overrides == nullptr) return {};
  if (auto ok = file.check_keys(**overrides, {"egress"}); !ok) return ok;
  const auto rules = file.array(**overrides, "egress", TomlValue::Kind::Table, "rules such as {action, target}");
  if (!rules) return Failure(rules.error());
  for (const TomlValue& table : **rules) {
    auto rule = read_rule(file, table);
    if (!rule) return Failure(rule.error());
    out.overrides.push_back({std::move(*rule), table.place});
  }
  return {};
}

Result<void> read_names(const TomlFile& file, std::string_view fallback_name, Template& out) {
  for (auto [key, field] : {std::pair("name", &out.name), std::pair("description", &out.description)}) {
    auto text = file.string(file.root(), key);
    if (!text) return Failure(text.error());
    *field = std::move(*text);
  }
  const TomlValue* given = file.root().find("name");
  if (given == nullptr) out.name = fallback_name;
  if (!is_policy_name(out.name)) {
    return file.refuse(given != nullptr ? given->place : TomlPlace{},
                       "name: " + in_quotes(out.name) + ": " + std::string(kPolicyNameRule));
  }
  const auto parent = file.string(file.root(), "extends");
  if (!parent) return Failure(parent.error());
  if (const TomlValue* value = file.root().find("extends")) out.extends = {*parent, value->place};
  return {};
}

}  // namespace

Result<Template> parse_template(std::string_view text, std::string source, std::string_view fallback_name) {
  const auto file = TomlFile::parse(text, std::move(source));
  if (!file) return Failure(file.error());
  const TomlValue& root = file->root();
  if (auto ok = file->check_keys(
          root, {"name", "description", "extends", "capabilities", "default_action", "mode", "overrides"});
      !ok)
    return Failure(ok.error());
  Template out;
  out.source = file->source();
  if (auto ok = read_names(*file, fallback_name, out); !ok) return Failure(ok.error());
  const auto capabilities = file->array(root, "capabilities", TomlValue::Kind::String, "names of capabilities");
  if (!capabilities) return Failure(capabilities.error());
  for (const TomlValue& item : **capabilities) out.capabilities.push_back({item.text, item.place});
  if (const TomlValue* value = root.find("default_action")) {
    const auto action = read_action(*file, root, "default_action", value->place);
    if (!action) return Failure(action.error());
    out.default_action = *action;
    out.default_place = value->place;
  }
  const auto mode = file->string(root, "mode");
  if (!mode) return Failure(mode.error());
  if (const TomlValue* value = root.find("mode"); value != nullptr && *mode != "enforce" && *mode != "audit")
    return file->refuse(value->place, "mode: " + in_quotes(*mode) + " is neither enforce nor audit");
  out.audit = *mode == "audit";
  if (auto ok = read_overrides(*file, out); !ok) return Failure(ok.error());
  return out;
}

}  // namespace osb::policy
