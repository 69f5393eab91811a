#include "runtime/docker/docker_options.h"

#include <arpa/inet.h>
#include <filesystem>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "http/url.h"
#include "http/web_rules.h"

namespace osb::runtime {
namespace {

bool is_wildcard(std::string_view host) { return host.empty() || host == "0.0.0.0" || host == "::"; }
bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// The server's public address may have a scheme, a port and a path, which are not those of published ports.
std::string host_of(std::string_view eip) {
  if (const std::size_t scheme = eip.find("://"); scheme != std::string_view::npos) eip.remove_prefix(scheme + 3);
  eip = eip.substr(0, eip.find('/'));
  const auto split = http::split_host(eip);
  return std::string(split ? split->name : eip);
}

// The machine of a tcp:// address, "" when it is this one.
std::string remote_machine(const std::string& engine) {
  if (!engine.starts_with("tcp://")) return "";
  const auto url = http::Url::parse("http://" + engine.substr(std::string_view("tcp://").size()));
  return url && !is_loopback(url->host) ? url->host : "";
}

// The address this host would use towards others; connecting a datagram socket sends nothing.
std::string own_address() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  ::inet_pton(AF_INET, "8.8.8.8", &address.sin_addr);
  socklen_t length = sizeof address;
  char text[INET_ADDRSTRLEN];
  if (socket.get() < 0 || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) < 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) < 0 ||
      ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text) == nullptr) {
    return "127.0.0.1";
  }
  return text;
}

// Docker, Podman, and the variable by which systemd-nspawn, LXC and others say so.
bool runs_in_container(const std::string& variable) {
  std::error_code ignored;
  return !variable.empty() || std::filesystem::exists("/.dockerenv", ignored) ||
         std::filesystem::exists("/run/.containerenv", ignored);
}

}  // namespace

DockerOptions docker_options(const config::ServerConfig& config, const config::Environment& environment) {
  DockerOptions out;
  const auto variable = [&](const char* name) {
    const std::string* value = environment.find(name);
    return value != nullptr ? *value : std::string();
  };
  if (const std::string host = variable("DOCKER_HOST"); !host.empty()) out.engine.host = host;
  out.engine.tls = !variable("DOCKER_TLS_VERIFY").empty();
  out.engine.cert_path = variable("DOCKER_CERT_PATH");
  if (out.engine.tls && out.engine.cert_path.empty()) out.engine.cert_path = environment.home() / ".docker";
  out.docker = config.docker;
  out.egress = config.egress;
  out.execd_image = config.runtime.execd_image;
  out.execd_run_as_init = config.runtime.execd_run_as_init;
  out.runtime = config.secure_runtime.docker_runtime;
  out.allowed_host_paths = config.storage.allowed_host_paths;
  out.resolve_internal = config.proxy.resolve_internal;

  const std::string& host = config.server.host;
  // In a container neither loopback nor our own address is one that clients reach.
  const bool by_host_ip = (is_wildcard(host) || is_loopback(host)) && !config.docker.host_ip.empty() &&
                          runs_in_container(variable("container"));
  if (is_loopback(host) && config.server.eip.empty()) {
    out.publish_address = "127.0.0.1";
  } else if (!is_wildcard(host) && config.server.eip.empty()) {
    out.publish_address = host;
  }
  if (!config.server.eip.empty()) {
    out.public_host = host_of(config.server.eip);
  } else if (by_host_ip) {
    out.public_host = config.docker.host_ip;
  } else if (!is_wildcard(host)) {
    out.public_host = host;
  } else {
    out.public_host = own_address();
  }
  // An engine on another machine publishes there: on all its addresses, because the server does not know them.
  if (const std::string remote = remote_machine(out.engine.host); !remote.empty()) {
    out.publish_address = "0.0.0.0";
    if (config.server.eip.empty()) out.public_host = remote;
  }
  if (!config.docker.publish_host.empty()) out.publish_address = config.docker.publish_host;
  const std::string directory = variable("DOCKER_CONFIG");
  out.credentials =
      (directory.empty() ? environment.home() / ".docker" : std::filesystem::path(directory)) / "config.json";
  return out;
}

}  // namespace osb::runtime
