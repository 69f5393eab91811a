#include "controller/metrics.h"

#include <string_view>

#include "base/concat.h"

namespace osb::controller {
namespace {

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += concat("# HELP opensandbox_controller_", name, " ", help, "\n# TYPE opensandbox_controller_", name, " ", type,
                "\n");
}

void value(std::string& out, std::string_view name, std::string_view labels, std::uint64_t number) {
  out += concat("opensandbox_controller_", name, labels, " ", number, "\n");
}

}  // namespace

std::string render_metrics(const Figures& figures) {
  std::string out;
  const auto single = [&](std::string_view name, std::string_view type, std::string_view help, std::uint64_t number) {
    head(out, name, type, help);
    value(out, name, "", number);
  };
  single("leader", "gauge", "1 while this process leads.", figures.leads ? 1 : 0);
  single("writes_total", "counter", "Writes to the API server, events not counted.", figures.writes);
  single("pods_granted_total", "counter", "Pods of pools given to sandboxes.", figures.grants);
  single("events_dropped_total", "counter", "Events that could not be sent.", figures.events_dropped);
  head(out, "objects", "gauge", "Objects that the controller knows.");
  value(out, "objects", R"({kind="BatchSandbox"})", figures.sandboxes);
  value(out, "objects", R"({kind="Pool"})", figures.pools);
  value(out, "objects", R"({kind="SandboxSnapshot"})", figures.snapshots);
  head(out, "reconcile_total", "counter", "Looks at objects, by their outcome.");
  for (const auto& each : figures.queues) {
    value(out, "reconcile_total", concat("{queue=\"", each.name, "\",result=\"success\"}"), each.done - each.failed);
    value(out, "reconcile_total", concat("{queue=\"", each.name, "\",result=\"error\"}"), each.failed);
  }
  head(out, "queue_waiting", "gauge", "Objects that wait for a look.");
  for (const auto& each : figures.queues)
    value(out, "queue_waiting", concat("{queue=\"", each.name, "\"}"), each.waiting);
  head(out, "pool_pods", "gauge", "Pods of a pool, by state.");
  for (const auto& each : figures.pool_figures) {
    // Names of namespaces and pools have no characters that a label would have to escape.
    const auto labels = [&](std::string_view state) {
      return concat("{namespace=\"", each.ns, "\",pool=\"", each.name, "\",state=\"", state, "\"}");
    };
    value(out, "pool_pods", labels("total"), static_cast<std::uint64_t>(each.total));
    value(out, "pool_pods", labels("allocated"), static_cast<std::uint64_t>(each.allocated));
    value(out, "pool_pods", labels("available"), static_cast<std::uint64_t>(each.available));
  }
  return out;
}

}  // namespace osb::controller
