#include "config/reload.h"

#include "config/settings.h"

namespace osb::config {
namespace {

std::vector<Settings::Row> rows_of(ServerConfig& config) {
  Settings settings = Settings::listing();
  declare_server_settings(settings, config);
  return settings.rows();
}

}  // namespace

Changes take_over(ServerConfig& running, ServerConfig wanted) {
  Changes out;
  const auto to = rows_of(running), from = rows_of(wanted);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i].field == nullptr || to[i].reload == Reload::Ignored || to[i].same(to[i].field, from[i].field)) continue;
    const bool live = to[i].reload == Reload::Live;
    std::vector<std::string>& names = live ? out.live : out.restart;
    const std::string name = "[" + to[i].text.section + "]" + (to[i].whole ? "" : " " + to[i].text.key);
    if (names.empty() || names.back() != name) names.push_back(name);
    if (live) to[i].copy(to[i].field, from[i].field);
  }
  return out;
}

}  // namespace osb::config
