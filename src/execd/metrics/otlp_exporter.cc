#include "execd/metrics/otlp_exporter.h"

#include "base/ip_address.h"
#include "base/json_escape.h"
#include "sys/proc_stats.h"

namespace osb::execd {

Result<std::optional<OtlpOptions>> OtlpOptions::from_environment(const Environment& env, const std::string& hostinfo) {
  const otlp::GetVariable variable = [&env](const std::string& name) {
    const auto found = env.find(name);
    return found == env.end() ? std::string() : found->second;
  };
  auto collector = otlp::Collector::from_environment(variable, hostinfo);
  if (!collector) return Failure(collector.error());
  if (!*collector) return std::nullopt;
  http::Url& url = (*collector)->url;
  if (url.host == "localhost") url.host = "127.0.0.1";
  if (url.scheme != "http" || !parse_ip_address(url.host)) {
    return fail(Code::Unsupported, "OTLP endpoint " + in_quotes((*collector)->origin()) +
                                       ": execd sends to http:// and an IP address only; run a collector there");
  }
  const std::string sandbox = variable("OPENSANDBOX_ID");
  OtlpOptions out;
  out.resource = {{"service.name", "opensandbox-execd-" OSB_VERSION}, {"sandbox_id", sandbox}};
  for (const auto& pair : (*collector)->resource) out.resource.push_back(pair);
  out.common = {{"sandbox_id", sandbox}};
  for (auto& pair : otlp::parse_attributes(variable("OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS"))) {
    out.common.push_back(std::move(pair));
  }
  out.collector = std::move(**collector);
  return out;
}

OtlpExporter::OtlpExporter(OtlpOptions options, std::shared_ptr<const sys::CgroupFiles> cgroup_files)
    : store_(std::move(options.resource), std::move(options.common)),
      sender_(std::move(options.collector), http::make_plain_connector()),
      stats_({}, "/proc", std::move(cgroup_files)),
      meter_(stats_) {}

SystemSample OtlpExporter::sample() {
  const sys::NetworkBytes network = sys::network_bytes();
  const sys::SocketCounts sockets = sys::socket_counts();
  return {.processes = sys::process_count(),
          .cpu_percent = meter_.percent(),
          .memory_bytes = stats_.memory().used_bytes,
          .network_received = network.received,
          .network_sent = network.sent,
          .tcp_sockets = sockets.tcp,
          .udp_sockets = sockets.udp};
}

net::awaitable<Result<void>> OtlpExporter::flush(std::chrono::milliseconds limit) {
  auto sent = co_await sender_.send(store_.take(sample()), limit);
  store_.settle(sent.has_value());
  co_return sent;
}

net::awaitable<void> OtlpExporter::run() {
  return sender_.run([this] { return store_.take(sample()); }, [this](bool sent) { store_.settle(sent); });
}

}  // namespace osb::execd
