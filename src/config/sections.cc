#include "config/sections.h"

#include <algorithm>
#include <set>

#include "base/base64.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace osb::config {
namespace {

bool is_key_id(std::string_view text) {
  return text.size() == 1 && ((text[0] >= '0' && text[0] <= '9') || (text[0] >= 'a' && text[0] <= 'z'));
}

bool is_label(std::string_view label) {
  if (label.empty() || label.size() > 63 || label.front() == '-') return false;
  return std::ranges::all_of(label, [](char c) { return is_letter_or_digit(c) || c == '-'; });
}

// How many labels a host name has; 0 when it is none.
int labels_of(std::string_view name) {
  if (name.size() > 253) return 0;
  for (int count = 1;; ++count) {
    const std::string_view label = name.substr(0, name.find('.'));
    if (!is_label(label)) return 0;
    if (label.size() == name.size()) return count;
    name.remove_prefix(label.size() + 1);
  }
}

bool is_port(std::string_view text) { return text.size() <= 5 && parse_number<std::uint16_t>(text).value_or(0) > 0; }

// Why an address does not fit its route mode; "" when it does.
std::string_view address_fault(std::string_view address, std::string_view mode) {
  if (address.find("://") != std::string_view::npos) return "must not have a scheme";
  if (mode == "wildcard") {
    if (!address.starts_with("*.") || labels_of(address.substr(2)) < 2) {
      return "expected *. and a domain of at least two labels, without a port";
    }
  } else if (mode == "header") {
    const auto colon = address.find(':');
    const bool port_fits = colon == std::string_view::npos || is_port(address.substr(colon + 1));
    if (labels_of(address.substr(0, colon)) == 0 || !port_fits)
      return "expected a host name or IPv4 address, with or without a port";
  } else if (address.find('*') != std::string_view::npos ||
             address.find_first_not_of(" \t") == std::string_view::npos) {
    return "must not be blank nor contain '*'";
  }
  return "";
}

void read_signing_keys(TomlReader& r, IngressSection& out) {
  constexpr std::string_view kSection = "ingress.secure_access";
  if (!r.has(kSection)) return;
  if (!out.gateway) r.reject(kSection, "", "only allowed with [ingress] mode = \"gateway\"");
  std::set<char> ids;
  for (const auto& entry : r.tables(kSection, "keys")) {
    const auto id = entry.find("key_id");
    const auto key = entry.find("key");
    if (id == entry.end() || !is_key_id(id->second)) {
      r.reject(kSection, "keys", "each needs a key_id of one character, 0-9 or a-z");
      return;
    }
    if (!ids.insert(id->second[0]).second) r.reject(kSection, "keys", "key_id " + id->second + " is used twice");
    const auto secret = key == entry.end() ? std::nullopt : decode_base64(key->second);
    if (!secret || secret->empty()) {
      r.reject(kSection, "keys", "key of key_id " + id->second + " must be base64 of at least one byte");
      return;
    }
    out.keys.push_back({id->second[0], *secret});
  }
  if (out.keys.empty()) r.reject(kSection, "keys", "at least one is needed");
  const std::string active = r.string(kSection, "active_key").value_or("");
  if (!is_key_id(active) || !ids.contains(active[0])) {
    r.reject(kSection, "active_key", "must be the key_id of one of the keys");
    return;
  }
  out.active_key = active[0];
}

void read_ingress(TomlReader& r, IngressSection& out) {
  const std::string mode = r.string("ingress", "mode").value_or("direct");
  if (mode != "direct" && mode != "gateway") r.reject("ingress", "mode", "expected \"direct\" or \"gateway\"");
  out.gateway = mode == "gateway";
  const bool described = r.has("ingress.gateway");
  if (out.gateway && !described) r.reject("ingress", "gateway", "required with mode = \"gateway\"");
  if (!out.gateway && described) r.reject("ingress", "gateway", "only allowed with mode = \"gateway\"");
  if (out.gateway && described) {
    out.address = r.string("ingress.gateway", "address").value_or("");
    out.route_mode = r.string("ingress.gateway.route", "mode").value_or("");
    if (out.route_mode != "wildcard" && out.route_mode != "header" && out.route_mode != "uri") {
      r.reject("ingress.gateway.route", "mode", "expected \"wildcard\", \"header\" or \"uri\"");
    }
    if (out.address.empty()) r.reject("ingress.gateway", "address", "required");
    if (const auto fault = address_fault(out.address, out.route_mode); !fault.empty()) {
      r.reject("ingress.gateway", "address", fault);
    }
  }
  read_signing_keys(r, out);
}

void read_secure_runtime(TomlReader& r, RuntimeType runtime, SecureRuntimeSection& out) {
  constexpr std::string_view kSection = "secure_runtime";
  out.type = r.string(kSection, "type").value_or("");
  out.docker_runtime = r.string(kSection, "docker_runtime").value_or("");
  out.k8s_runtime_class = r.string(kSection, "k8s_runtime_class").value_or("");
  const bool named = !out.docker_runtime.empty() || !out.k8s_runtime_class.empty();
  if (out.type.empty()) {
    if (named) r.reject(kSection, "type", "required with docker_runtime or k8s_runtime_class");
  } else if (out.type == "firecracker") {
    if (runtime != RuntimeType::Kubernetes)
      r.reject(kSection, "type", "firecracker needs [runtime] type = \"kubernetes\"");
    if (out.k8s_runtime_class.empty()) r.reject(kSection, "k8s_runtime_class", "required with type = \"firecracker\"");
  } else if (out.type == "gvisor" || out.type == "kata") {
    if (!named && runtime != RuntimeType::Native) {
      r.reject(kSection, "type", "docker_runtime or k8s_runtime_class is needed too");
    }
    const bool gvisor = out.type == "gvisor";
    if (out.docker_runtime.empty()) out.docker_runtime = gvisor ? "runsc" : "kata-runtime";
    if (out.k8s_runtime_class.empty()) out.k8s_runtime_class = gvisor ? "gvisor" : "kata-qemu";
  } else {
    r.reject(kSection, "type", "expected \"\", \"gvisor\", \"kata\" or \"firecracker\"");
  }
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return osb::decode_base64(std::string(text).append((4 - text.size() % 4) % 4, '='));
}

void read_other_keys(TomlReader& r, ServerConfig& config) {
  read_ingress(r, config.ingress);
  read_secure_runtime(r, config.runtime.type, config.secure_runtime);
  read_credentials(r, config.credentials);
}

void check_sections(TomlReader& r, const ServerConfig& config) {
  const std::string type(to_string(config.runtime.type));
  if (config.runtime.type != RuntimeType::Native && config.runtime.execd_image.empty()) {
    r.reject("runtime", "execd_image", "required with type = \"" + type + "\": the image that holds execd");
  }
  // Also an empty section would turn tenants on.
  if (r.has("tenants")) r.reject("tenants", "", "this server has no tenants yet");
  const DockerSection& docker = config.docker;
  if (docker.port_range_min < 1024) r.reject("docker", "port_range_min", "expected an integer from 1024 to 65535");
  if (docker.port_range_max < docker.port_range_min + 100) {
    r.reject("docker", "port_range_max", "must be at least 100 above port_range_min");
  }
  check_upstream_proxy(r, config.runtime.type, config.egress);
  const RenewIntentSection::Redis& redis = config.renew_intent.redis;
  if (redis.enabled && redis.dsn.find_first_not_of(" \t") == std::string::npos) {
    r.reject("renew_intent.redis", "dsn", "required with enabled = true");
  }
  if (config.runtime.type == RuntimeType::Kubernetes) {
    if (r.has("agent_sandbox") && config.kubernetes.workload_provider != "agent-sandbox") {
      r.reject("agent_sandbox", "", "only allowed with [kubernetes] workload_provider = \"agent-sandbox\"");
    }
    return;
  }
  for (const std::string_view section : {"kubernetes", "agent_sandbox"}) {
    if (r.has(section)) r.reject(section, "", "not allowed with [runtime] type = \"" + type + "\"");
  }
  if (config.ingress.gateway) r.reject("ingress", "mode", "must be \"direct\" with [runtime] type = \"" + type + "\"");
}

}  // namespace osb::config
