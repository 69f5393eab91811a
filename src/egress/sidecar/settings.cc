#include "egress/sidecar/settings.h"

#include <algorithm>

#include "base/parse_number.h"
#include "policy/text.h"
#include "sys/text_file.h"

namespace osb::egress {
namespace {

using policy::lower;
using policy::trimmed;

const std::string kPrefix = "OPENSANDBOX_EGRESS_";
constexpr std::size_t kMaxServers = 10;

bool truthy(std::string_view text) {
  const std::string value = lower(trimmed(text));
  return value == "1" || value == "true" || value == "yes" || value == "y" || value == "on";
}

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (const auto item = trimmed(text.substr(0, comma)); !item.empty()) out.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return out;
}

// Tokens joined by '+', in any order. A typo must not weaken the mode.
Result<std::string> parse_mode(std::string_view text) {
  bool dns = false, nft = false;
  std::string value = lower(trimmed(text));
  for (char& c : value) {
    if (c == '+') c = ',';
  }
  for (const std::string& token : comma_list(value)) {
    if (token != "dns" && token != "nft") dns = nft = false;
    if (token != "dns" && token != "nft") break;
    dns = dns || token == "dns";
    nft = nft || token == "nft";
  }
  if (!dns) return fail(Code::InvalidRequest, kPrefix + "MODE: expected dns or dns+nft");
  return nft ? "dns+nft" : "dns";
}

Result<Endpoint> parse_listen(std::string_view text) {
  std::string value(trimmed(text));
  if (value.starts_with(':')) value = "0.0.0.0" + value;
  auto endpoint = parse_endpoint(value, 18080);
  if (!endpoint) return fail(Code::InvalidRequest, kPrefix + "HTTP_ADDR: expected address:port");
  return endpoint;
}

std::chrono::seconds seconds_in(std::optional<std::string> text, int otherwise, int most) {
  const auto number = text ? parse_number<int>(trimmed(*text)) : std::nullopt;
  if (!number || *number <= 0) return std::chrono::seconds(otherwise);
  return std::chrono::seconds(std::min(*number, most));
}

// The host of "http://host:port/path".
std::string host_of(std::string_view url) {
  if (const auto scheme = url.find("://"); scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('/'));
  if (const auto at = url.rfind('@'); at != std::string_view::npos) url.remove_prefix(at + 1);
  if (url.starts_with('[')) return std::string(url.substr(1, url.find(']') - 1));
  return std::string(url.substr(0, url.find(':')));
}

Result<void> read_upstreams(const GetVariable& get, Settings& out) {
  for (const std::string& each : comma_list(get(kPrefix + "DNS_UPSTREAM").value_or(""))) {
    const auto endpoint = parse_endpoint(each);
    if (!endpoint) return with_context(kPrefix + "DNS_UPSTREAM", endpoint.error());
    if (std::ranges::find(out.upstreams, *endpoint) == out.upstreams.end()) out.upstreams.push_back(*endpoint);
  }
  out.upstream_timeout = seconds_in(get(kPrefix + "DNS_UPSTREAM_TIMEOUT"), 5, 120);
  out.probe_name = trimmed(get(kPrefix + "DNS_UPSTREAM_PROBE").value_or(""));
  if (out.probe_name == ".") out.probe_name.clear();
  out.probe_interval = seconds_in(get(kPrefix + "DNS_UPSTREAM_PROBE_INTERVAL_SEC"), 30, 3600);
  return {};
}

void read_doh(const GetVariable& get, Settings& out) {
  out.block_doh = truthy(get(kPrefix + "BLOCK_DOH_443").value_or(""));
  for (const std::string& each : comma_list(get(kPrefix + "DOH_BLOCKLIST").value_or(""))) {
    const auto address = parse_ip_address(each);
    const auto prefix = address ? std::optional(IpPrefix(*address, address->bits())) : parse_ip_prefix(each);
    if (prefix) out.doh_blocklist.push_back(*prefix);
    if (!prefix) out.warnings.push_back(kPrefix + "DOH_BLOCKLIST: '" + each + "' is no address and no network");
  }
}

// A wrong URL is no reason to leave a sandbox without its policy: it is not called.
void read_webhook(const GetVariable& get, Settings& out) {
  const std::string text(trimmed(get(kPrefix + "DENY_WEBHOOK").value_or("")));
  if (text.empty()) return;
  auto url = http::Url::parse(text);
  if (url && url->scheme != "unix") {
    out.deny_webhook = std::move(*url);
    return;
  }
  out.warnings.push_back(kPrefix + "DENY_WEBHOOK: is no http or https URL; denied names are not sent");
}

// The same holds for a wrong address of a collector.
void read_collector(const GetVariable& get, Settings& out) {
  const auto value = [&](const std::string& name) { return get(name).value_or(""); };
  const std::string for_metrics = value("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
  out.collector = host_of(for_metrics.empty() ? value("OTEL_EXPORTER_OTLP_ENDPOINT") : for_metrics);
  auto collector = otlp::Collector::from_environment(value);
  if (collector) out.metrics = std::move(*collector);
  if (!collector) out.warnings.push_back(collector.error().message + "; metrics are not sent");
}

Result<void> read_upstream_proxy(const GetVariable& get, Settings& out) {
  const std::string text(trimmed(get(kPrefix + "UPSTREAM_PROXY").value_or("")));
  if (text.empty()) return {};
  // Without interception connections would pass by the proxy.
  if (!out.intercept) return fail(Code::InvalidRequest, kPrefix + "UPSTREAM_PROXY: needs MITMPROXY_TRANSPARENT");
  auto url = http::Url::parse(text);
  if (!url || url->scheme != "http" || url->target != "/") {
    return fail(Code::InvalidRequest, kPrefix + "UPSTREAM_PROXY: expected http://HOST:PORT");
  }
  out.upstream_proxy = std::move(*url);
  std::string authorization = get(kPrefix + "UPSTREAM_PROXY_AUTH").value_or("");
  if (const std::string file = get(kPrefix + "UPSTREAM_PROXY_AUTH_FILE").value_or(""); !file.empty()) {
    auto held = sys::read_text(file);
    if (!held) return with_context(kPrefix + "UPSTREAM_PROXY_AUTH_FILE", held.error());
    authorization = std::move(*held);
  }
  out.upstream_proxy_authorization = trimmed(authorization);
  if (out.upstream_proxy_authorization.find_first_of("\r\n") != std::string::npos) {
    return fail(Code::InvalidRequest, kPrefix + "UPSTREAM_PROXY_AUTH: expected one line");
  }
  return {};
}

Result<void> read_interception(const GetVariable& get, Settings& out) {
  out.intercept = truthy(get(kPrefix + "MITMPROXY_TRANSPARENT").value_or(""));
  if (auto read = read_upstream_proxy(get, out); !read) return read;
  if (!out.intercept) return {};
  out.authority_file = get(kPrefix + "CA_FILE").value_or("");
  if (out.authority_file.empty()) {
    return fail(Code::InvalidRequest, kPrefix + "CA_FILE: interception needs a file with an authority (PEM)");
  }
  out.extra_trust_file = get(kPrefix + "MITMPROXY_UPSTREAM_EXTRA_CA").value_or("");
  out.vault_requires_tls = truthy(get(kPrefix + "CREDENTIAL_VAULT_REQUIRE_TLS").value_or(""));
  for (const std::string& each : comma_list(get(kPrefix + "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS").value_or(""))) {
    const auto prefix = parse_ip_prefix(each);
    if (!prefix) return fail(Code::InvalidRequest, kPrefix + "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS: expected networks");
    out.vault_proxies.push_back(*prefix);
  }
  // Without verified servers a secret would go to whoever answers.
  if (truthy(get(kPrefix + "MITMPROXY_SSL_INSECURE").value_or(""))) {
    return fail(Code::Unsupported, kPrefix + "MITMPROXY_SSL_INSECURE: certificates of servers are always verified");
  }
  out.vault_scrub_bodies = truthy(get(kPrefix + "CREDENTIAL_VAULT_SCRUB_BODIES").value_or(""));
  out.vault_pins = comma_list(get(kPrefix + "CREDENTIAL_VAULT_PINS").value_or(""));
  out.vault_scoped_match = truthy(get(kPrefix + "CREDENTIAL_VAULT_REQUIRE_SCOPED_MATCH").value_or(""));
  return {};
}

}  // namespace

Result<Settings> read_settings(const GetVariable& get) {
  Settings out;
  auto mode = parse_mode(get(kPrefix + "MODE").value_or("dns"));
  if (!mode) return Failure(mode.error());
  out.mode = std::move(*mode);
  auto api = parse_listen(get(kPrefix + "HTTP_ADDR").value_or(":18080"));
  if (!api) return Failure(api.error());
  out.api = *api;
  out.token = get(kPrefix + "TOKEN").value_or("");
  if (out.token.empty()) {
    return fail(Code::InvalidRequest, kPrefix + "TOKEN: is needed; without it the sandbox could change its own policy");
  }
  out.audit = truthy(get(kPrefix + "AUDIT").value_or(""));
  out.rules = get(kPrefix + "RULES").value_or("");
  out.policy_file = get(kPrefix + "POLICY_FILE").value_or("");
  const auto most = parse_number<std::size_t>(trimmed(get(kPrefix + "MAX_RULES").value_or("4096")));
  out.max_rules = most.value_or(4096);
  std::string level = lower(trimmed(get(kPrefix + "LOG_LEVEL").value_or("info")));
  if (level == "fatal") level = "error";
  const auto parsed = parse_log_level(level);
  if (!parsed) out.warnings.push_back(kPrefix + "LOG_LEVEL: '" + level + "' is unknown, info is used");
  out.log_level = parsed.value_or(LogLevel::Info);
  if (auto outputs = comma_list(get("OPENSANDBOX_LOG_OUTPUT").value_or("")); !outputs.empty()) {
    out.log_outputs = std::move(outputs);
  }
  if (auto read = read_upstreams(get, out); !read) return Failure(read.error());
  read_doh(get, out);
  read_webhook(get, out);
  out.sandbox_id = get(kPrefix + "SANDBOX_ID").value_or("");
  out.attributes = otlp::parse_attributes(get(kPrefix + "METRICS_EXTRA_ATTRS").value_or(""));
  read_collector(get, out);
  if (get(kPrefix + "NAMESERVER_EXEMPT").value_or("") != "") {
    out.warnings.push_back(kPrefix + "NAMESERVER_EXEMPT: has no effect; every question is judged by the policy");
  }
  if (auto read = read_interception(get, out); !read) return Failure(read.error());
  return out;
}

std::vector<Endpoint> parse_resolv_conf(std::string_view text) {
  std::vector<Endpoint> out;
  for (const bool loopback : {false, true}) {
    std::string_view rest = text;
    while (!rest.empty() && out.size() < kMaxServers) {
      const auto end = rest.find('\n');
      std::string_view line = trimmed(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (!line.starts_with("nameserver ") && !line.starts_with("nameserver\t")) continue;
      line = trimmed(line.substr(11));
      const auto address = parse_ip_address(line.substr(0, line.find_first_of(" \t#;")));
      if (!address) continue;
      const bool local = !address->v6 ? address->bytes[0] == 127 : *address == *parse_ip_address("::1");
      const Endpoint server{*address, 53};
      if (local == loopback && std::ranges::find(out, server) == out.end()) out.push_back(server);
    }
  }
  return out;
}

}  // namespace osb::egress
