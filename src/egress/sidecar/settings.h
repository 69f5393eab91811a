#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ip_address.h"
#include "base/log.h"
#include "egress/proxy/endpoint.h"
#include "http/url.h"
#include "otlp/collector.h"

namespace osb::egress {

// The environment of the sidecar. Names are the contract's.
struct Settings {
  std::string mode = "dns";  // or "dns+nft": what answers of the API say. Packets are filtered in both.
  Endpoint api = {};
  std::string token = {};
  std::string rules = {};        // the first policy
  std::string policy_file = {};  // the policy, once it was changed; may be empty
  std::size_t max_rules = 4096;  // 0: no limit
  LogLevel log_level = LogLevel::Info;
  std::vector<std::string> log_outputs = {"stdout"};
  std::vector<Endpoint> upstreams = {};  // empty: those of resolv.conf
  std::chrono::seconds upstream_timeout{5};
  std::string probe_name = {};
  std::chrono::seconds probe_interval{30};
  bool audit = false;      // denied names and addresses pass, private networks stay closed
  bool block_doh = false;  // port 443: of the list, or of everything without one
  std::vector<IpPrefix> doh_blocklist = {};
  std::optional<http::Url> deny_webhook = {};
  // Connections of the sandbox are intercepted, with the authority of this file (key and certificate in PEM).
  bool intercept = false;
  std::string authority_file = {};
  std::string extra_trust_file = {};              // certificates in PEM, besides the list of the image; may be empty
  std::optional<http::Url> upstream_proxy = {};   // that intercepted connections go through
  std::string upstream_proxy_authorization = {};  // value of Proxy-Authorization; a secret
  bool vault_requires_tls = false;
  std::vector<IpPrefix> vault_proxies = {};
  bool vault_scoped_match = false;
  bool vault_scrub_bodies = false;           // secrets are taken out of the bodies of answers
  std::vector<std::string> vault_pins = {};  // "HOST=ADDRESS"
  std::string sandbox_id = {};
  std::vector<std::pair<std::string, std::string>> attributes = {};  // of log lines and metrics
  std::string collector = {};                                        // a host that stays allowed
  std::optional<otlp::Collector> metrics = {};                       // where they are sent
  std::vector<std::string> warnings = {};                            // for the log, once there is one
};

// `get` returns the value of a variable, or nothing. Errors name the variable; the token is in none.
using GetVariable = std::function<std::optional<std::string>(const std::string& name)>;
Result<Settings> read_settings(const GetVariable& get);

// Name servers of a resolv.conf on port 53: at most 10, those that are not loopback first.
std::vector<Endpoint> parse_resolv_conf(std::string_view text);

}  // namespace osb::egress
