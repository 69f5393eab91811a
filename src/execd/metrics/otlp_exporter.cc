#include "execd/metrics/otlp_exporter.h"

#include <arpa/inet.h>

#include "async/timer.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "http/url.h"
#include "sys/proc_stats.h"
#include "sys/text_file.h"

namespace osb::execd {
namespace {

std::string_view variable(const Environment& env, std::string_view name) {
  const auto found = env.find(name);
  return found == env.end() ? std::string_view() : std::string_view(found->second);
}

bool is_ip(const std::string& text) {
  in6_addr ignored;
  return ::inet_pton(AF_INET, text.c_str(), &ignored) == 1 || ::inet_pton(AF_INET6, text.c_str(), &ignored) == 1;
}

std::string with_port(const std::string& ip, std::uint16_t port) {
  const bool v6 = ip.find(':') != std::string::npos;
  return (v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

// "k=v,k2=v2"; a part without '=' is skipped.
MetricAttributes pairs(std::string_view text) {
  MetricAttributes out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    if (const std::size_t equals = entry.find('='); equals != std::string_view::npos) {
      const std::string_view key = http::trim_ows(entry.substr(0, equals));
      const std::string_view value = http::trim_ows(entry.substr(equals + 1));
      if (!key.empty()) out.emplace_back(key, value);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::optional<std::chrono::milliseconds> millis(const Environment& env, std::string_view name) {
  const auto value = parse_number<std::int64_t>(variable(env, name));
  if (!value || *value <= 0) return std::nullopt;
  return std::chrono::milliseconds(*value);
}

// The address of the platform's collector, if none is configured.
std::string host_address(const Environment& env, const std::string& hostinfo) {
  if (std::string ip(http::trim_ows(variable(env, "HOST_IP"))); is_ip(ip)) return ip;
  std::string found;
  if (const auto text = sys::read_text(hostinfo, 64 << 10)) {
    sys::for_each_line(*text, [&](std::string_view line) {
      if (std::string ip(http::trim_ows(line)); found.empty() && is_ip(ip)) found = ip;
    });
  }
  return found;
}

}  // namespace

Result<std::optional<OtlpOptions>> OtlpOptions::from_environment(const Environment& env, const std::string& hostinfo) {
  if (variable(env, "OTEL_SDK_DISABLED") == "true" || variable(env, "OTEL_METRICS_EXPORTER") == "none") {
    return std::nullopt;
  }
  std::string endpoint(variable(env, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"));
  if (endpoint.empty()) {
    endpoint = variable(env, "OTEL_EXPORTER_OTLP_ENDPOINT");
    if (endpoint.empty()) {
      const std::string ip = host_address(env, hostinfo);
      if (ip.empty()) return std::nullopt;
      endpoint = "http://" + with_port(ip, 4318);
    }
    endpoint += endpoint.ends_with('/') ? "v1/metrics" : "/v1/metrics";
  }
  auto url = http::Url::parse(endpoint);
  if (!url) return with_context("OTLP endpoint", url.error());
  if (url->host == "localhost") url->host = "127.0.0.1";
  if (url->scheme != "http" || !is_ip(url->host)) {
    return fail(Code::Unsupported, "OTLP endpoint " + in_quotes(endpoint) +
                                       ": execd sends to http:// and an IP address only; run a collector there");
  }
  OtlpOptions out;
  out.origin = with_port(url->host, url->port);
  out.target = url->target;
  std::string_view headers = variable(env, "OTEL_EXPORTER_OTLP_METRICS_HEADERS");
  if (headers.empty()) headers = variable(env, "OTEL_EXPORTER_OTLP_HEADERS");
  for (const auto& [key, value] : pairs(headers)) out.headers.add(key, http::percent_decode(value).value_or(value));
  out.interval = millis(env, "OTEL_METRIC_EXPORT_INTERVAL").value_or(out.interval);
  out.timeout = millis(env, "OTEL_EXPORTER_OTLP_TIMEOUT").value_or(out.timeout);
  out.timeout = millis(env, "OTEL_METRIC_EXPORT_TIMEOUT").value_or(out.timeout);

  const std::string sandbox(variable(env, "OPENSANDBOX_ID"));
  out.resource = {{"service.name", "opensandbox-execd-" OSB_VERSION}, {"sandbox_id", sandbox}};
  for (auto& pair : pairs(variable(env, "OTEL_RESOURCE_ATTRIBUTES"))) out.resource.push_back(std::move(pair));
  out.common = {{"sandbox_id", sandbox}};
  for (auto& pair : pairs(variable(env, "OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS")))
    out.common.push_back(std::move(pair));
  return out;
}

OtlpExporter::OtlpExporter(OtlpOptions options, std::shared_ptr<const sys::CgroupFiles> cgroup_files)
    : options_(std::move(options)),
      store_(options_.resource, options_.common),
      client_(http::make_plain_connector(), {.idle_per_origin = 0, .idle = {}}),  // one request a minute
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
  http::ClientRequest request;
  request.method = "POST";
  request.target = options_.target;
  request.headers = options_.headers;
  request.headers.set("Content-Type", "application/json");
  request.body = store_.to_json(sample(), std::chrono::system_clock::now());
  request.timeouts = {.connect = limit, .head = limit, .body_stall = limit};
  auto response = co_await client_.send(options_.origin, std::move(request));
  if (!response) co_return Failure(response.error());
  auto body = co_await response->body->read_all(64 << 10);
  if (!body) co_return Failure(body.error());
  if (response->status / 100 != 2) {
    co_return fail(Code::Unavailable, "the collector answered " + std::to_string(response->status));
  }
  co_return Result<void>();
}

net::awaitable<void> OtlpExporter::run() {
  bool away = false;
  while (co_await sleep_for(options_.interval)) {
    const auto sent = co_await flush(options_.timeout);
    if (!sent && !away) log_warn("metrics not exported", {{"to", options_.origin}, {"error", sent.error().message}});
    if (sent && away) log_info("metrics exported again", {{"to", options_.origin}});
    away = !sent;
  }
}

}  // namespace osb::execd
