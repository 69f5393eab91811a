#include "egress/metrics/egress_metrics.h"

#include "policy/address_sets.h"

namespace osb::egress {
namespace {

using Kind = otlp::MetricDocument::Kind;

// Rules and the elements that they are in the kernel's sets.
std::uint64_t elements(const Sandbox& sandbox, const policy::Overlays& overlays) {
  const policy::AddressSets sets = policy::address_sets(sandbox.policy, overlays);
  std::uint64_t out = sandbox.policy.egress.size();
  for (const auto* each : {&sets.deny, &sets.allow}) out += each->v4.size() + each->tcp_v4.size();
  return out;
}

}  // namespace

EgressMetrics::EgressMetrics(const Sandboxes& sandboxes, ProcessUsage usage, otlp::Attributes resource,
                             otlp::Attributes common)
    : sandboxes_(sandboxes),
      usage_(std::move(usage)),
      resource_(std::move(resource)),
      common_(std::move(common)),
      started_(sandboxes.clock().now()) {
  resource_.emplace(resource_.begin(), "service.name", "opensandbox-egress-" OSB_VERSION);
}

std::string EgressMetrics::document() {
  otlp::MetricDocument out({.scope = "opensandbox/egress",
                            .resource = resource_,
                            .common = common_,
                            .started = started_,
                            .now = sandboxes_.clock().now()});
  const auto each_sandbox = [&](Kind kind, std::string_view name, std::string_view unit, auto put) {
    out.begin(kind, name, unit);
    sandboxes_.for_each([&](const Sandbox& sandbox) { put(otlp::Attributes{{"sandbox_id", sandbox.id}}, sandbox); });
    out.end();
  };
  const auto process = [&](std::string_view name, std::string_view unit, auto value) {
    out.begin(Kind::Gauge, name, unit);
    out.point({}, value);
    out.end();
  };
  each_sandbox(Kind::Histogram, "egress.dns.query.duration", "s", [&](const auto& id, const Sandbox& sandbox) {
    if (sandbox.metrics.durations) out.point(id, *sandbox.metrics.durations);
  });
  each_sandbox(Kind::Sum, "egress.policy.denied_total", "{query}",
               [&](const auto& id, const Sandbox& sandbox) { out.point(id, sandbox.metrics.denied); });
  each_sandbox(Kind::Sum, "egress.nftables.updates.count", "{update}",
               [&](const auto& id, const Sandbox& sandbox) { out.point(id, sandbox.metrics.updates); });
  each_sandbox(Kind::Gauge, "egress.nftables.rules.count", "{element}", [&](const auto& id, const Sandbox& sandbox) {
    out.point(id, elements(sandbox, sandboxes_.overlays()));
  });
  if (const std::uint64_t resident = usage_.resident_bytes(); resident > 0) {
    process("egress.system.memory.usage_bytes", "By", resident);
  }
  process("egress.system.cpu.utilization", "1", usage_.utilization());
  return std::move(out).finish();
}

}  // namespace osb::egress
