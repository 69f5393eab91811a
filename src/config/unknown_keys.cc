// Keys of the server's file that no declaration knows.

#include <algorithm>
#include <set>

#include "base/edit_distance.h"
#include "config/settings.h"

namespace osb::config {
namespace {

// Far enough for a slip of the finger, near enough to be meant.
constexpr std::size_t kNear = 3;

constexpr std::string_view kRemovedSection = "pause";

std::string key_text(const SettingText& setting) { return "[" + setting.section + "] " + setting.key; }

// "; did you mean .."; empty when nothing is near.
std::string suggest_key(const std::vector<SettingText>& all, const TomlReader::Name& name) {
  const SettingText* best = nullptr;
  std::size_t distance = kNear + 1;
  for (const SettingText& each : all) {
    // The same key elsewhere is as good as one other letter here.
    const std::size_t here = edit_distance(each.key, name.key) + (each.section == name.section ? 0 : 1);
    if (here < distance) {
      distance = here;
      best = &each;
    }
  }
  return best == nullptr ? "" : "; did you mean " + key_text(*best) + "?";
}

std::string suggest_section(const std::set<std::string>& sections, const std::string& name) {
  const auto near = std::ranges::min_element(sections, {}, [&](const auto& s) { return edit_distance(s, name); });
  return near == sections.end() || edit_distance(*near, name) > kNear ? "" : "; did you mean [" + *near + "]?";
}

}  // namespace

void check_unknown_keys(TomlReader& reader) {
  const std::vector<SettingText> all = server_settings();
  std::set<std::string> sections;
  std::set<std::pair<std::string, std::string>> keys;
  for (const SettingText& each : all) {
    keys.emplace(each.section, each.key);
    // "a.b" is in "a".
    for (std::string section = each.section;; section.resize(section.rfind('.'))) {
      sections.insert(section);
      if (section.rfind('.') == std::string::npos) break;
    }
  }
  const bool warns = !reader.is("server", "unknown_keys", "\"refuse\"");
  const auto path_of = [](const TomlReader::Name& name) {
    return name.section.empty() ? name.key : name.section + "." + name.key;
  };
  const auto is_known = [&](const TomlReader::Name& name) {
    return keys.contains({name.section, name.key}) || sections.contains(path_of(name));
  };
  // Keys of an unknown section are unknown too; naming the section is enough.
  for (const auto& name :
       reader.names([&](const TomlReader::Name& each) { return !sections.contains(path_of(each)); })) {
    if (is_known(name)) continue;
    if (path_of(name) == kRemovedSection) {
      reader.warn(name.key, "", "Removed: it has no effect.");
      continue;
    }
    const bool table = reader.has(path_of(name));
    const std::string why =
        table ? "unknown section" + suggest_section(sections, path_of(name)) : "unknown key" + suggest_key(all, name);
    const std::string section = table ? path_of(name) : name.section;
    const std::string key = table ? "" : name.key;
    if (warns) {
      reader.warn(section, key, why + " It has no effect.");
    } else {
      reader.reject(section, key, why + " ([server] unknown_keys = \"warn\" starts all the same)");
    }
  }
}

}  // namespace osb::config
