#include "otlp/collector.h"

#include "base/ip_address.h"
#include "base/parse_number.h"
#include "sys/text_file.h"

namespace osb::otlp {
namespace {

constexpr std::uint16_t kDefaultPort = 4318;

std::string with_port(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<std::chrono::milliseconds> millis(const std::string& text) {
  const auto value = parse_number<std::int64_t>(text);
  if (!value || *value <= 0) return std::nullopt;
  return std::chrono::milliseconds(*value);
}

// The address of the platform's collector, if none is configured.
std::string host_address(const GetVariable& get, const std::string& hostinfo) {
  if (std::string ip(http::trim_ows(get("HOST_IP"))); parse_ip_address(ip)) return ip;
  std::string found;
  if (const auto text = sys::read_text(hostinfo, 64 << 10)) {
    sys::for_each_line(*text, [&](std::string_view line) {
      if (std::string ip(http::trim_ows(line)); found.empty() && parse_ip_address(ip)) found = ip;
    });
  }
  return found;
}

Result<Collector> at(const std::string& url_text) {
  auto url = http::Url::parse(url_text);
  if (!url) return with_context("OTLP endpoint", url.error());
  if (url->scheme != "http" && url->scheme != "https") {
    return fail(Code::InvalidRequest, "OTLP endpoint: expected an http or https URL");
  }
  Collector out;
  out.url = std::move(*url);
  return out;
}

}  // namespace

std::string Collector::origin() const {
  return (url.scheme == "https" ? "https://" : "") + with_port(url.host, url.port);
}

Attributes parse_attributes(std::string_view text) {
  Attributes out;
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

Result<Collector> Collector::from_endpoint(const std::string& endpoint) {
  return at(endpoint + (endpoint.ends_with('/') ? "v1/metrics" : "/v1/metrics"));
}

Result<std::optional<Collector>> Collector::from_environment(const GetVariable& get, const std::string& hostinfo) {
  if (get("OTEL_SDK_DISABLED") == "true" || get("OTEL_METRICS_EXPORTER") == "none") return std::nullopt;
  const std::string for_metrics = get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
  std::string endpoint = get("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (for_metrics.empty() && endpoint.empty()) {
    const std::string ip = host_address(get, hostinfo);
    if (ip.empty()) return std::nullopt;
    endpoint = "http://" + with_port(ip, kDefaultPort);
  }
  auto out = for_metrics.empty() ? from_endpoint(endpoint) : at(for_metrics);
  if (!out) return Failure(out.error());
  std::string headers = get("OTEL_EXPORTER_OTLP_METRICS_HEADERS");
  if (headers.empty()) headers = get("OTEL_EXPORTER_OTLP_HEADERS");
  for (const auto& [key, value] : parse_attributes(headers)) {
    out->headers.add(key, http::percent_decode(value).value_or(value));
  }
  out->interval = millis(get("OTEL_METRIC_EXPORT_INTERVAL")).value_or(out->interval);
  out->timeout = millis(get("OTEL_EXPORTER_OTLP_TIMEOUT")).value_or(out->timeout);
  out->timeout = millis(get("OTEL_METRIC_EXPORT_TIMEOUT")).value_or(out->timeout);
  out->resource = parse_attributes(get("OTEL_RESOURCE_ATTRIBUTES"));
  return std::optional(std::move(*out));
}

}  // namespace osb::otlp
