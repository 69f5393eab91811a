#include "runtime/docker/docker_network.h"

#include <algorithm>
#include <net/if.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "http/url.h"
#include "runtime/docker/engine_json.h"
#include "runtime/docker/resolvers.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using Call = EngineClient::Call;

constexpr std::string_view kTrafficOption = "com.docker.network.bridge.enable_icc";
constexpr std::string_view kBridgeOption = "com.docker.network.bridge.name";
constexpr std::string_view kSharedMark = "shared";
constexpr std::chrono::minutes kYoung(10);
constexpr const char* kElsewhere =
    "the engine's bridges have other names, or are not in this server's network namespace";
constexpr std::string_view kOwnBridges = "osbc-";  // of single sandboxes

std::string own_network(const std::string& sandbox) { return "opensandbox-" + sandbox; }

// The beginning of the sandbox's id, which is random.
std::string own_bridge(const std::string& sandbox) {
  std::string name(kOwnBridges);
  std::ranges::copy_if(sandbox, std::back_inserter(name), is_letter_or_digit);
  return name.substr(0, IFNAMSIZ - 1);
}

std::string network_path(std::string_view name) { return "/networks/" + http::percent_encode(name); }

Call create_call(std::string_view name, std::string_view mark, json::object options) {
  return {.method = "POST",
          .target = "/networks/create",
          .body = json::object{{"Name", name},
                               {"CheckDuplicate", true},
                               {"Driver", "bridge"},
                               {"Options", std::move(options)},
                               {"Labels", json::object{{kNetworkLabel, mark}}}}};
}

// A network of our name that does not separate its containers is not ours, whoever made it.
Result<void> check_shared(const json::value& network) {
  if (engine::text(network, {"Labels", kNetworkLabel}) == kSharedMark &&
      engine::text(network, {"Options", kTrafficOption}) == "false") {
    return {};
  }
  return fail(Code::Internal, "the engine's network " + std::string(kSharedNetwork) +
                                  " lets its containers reach each other, so it is not the one that the server makes: "
                                  "remove it (docker network rm), or set [docker] isolate_network = false");
}

// The engine's name for it where the network does not say another.
std::string bridge_of(const json::value& network) {
  std::string named = engine::text(network, {"Options", kBridgeOption});
  return named.empty() ? "br-" + engine::text(network, {"Id"}).substr(0, 12) : named;
}

}  // namespace

bool DockerNetwork::is_user_defined() const {
  const std::string& name = context_.options.docker.network_mode;
  return name != "host" && name != "bridge";
}

DockerNetwork::Kind DockerNetwork::kind() const {
  const config::DockerSection& docker = context_.options.docker;
  if (docker.network_mode != "bridge" || !docker.isolate_network) return Kind::AsNamed;
  return context_.facts.podman ? Kind::PerSandbox : Kind::Shared;
}

net::awaitable<void> DockerNetwork::look() {
  ready_ = false;
  if (kind() == Kind::Shared) {
    // Made ahead, so that the first create need not wait for it. A failure shows there.
    const auto made = co_await make_shared();
    if (!made) log_warn("no network for sandboxes", {{"error", made.error().message}});
    co_return;
  }
  if (kind() == Kind::PerSandbox) {
    // Before there is a bridge, so that none is ever without.
    co_await raise_wall("opensandbox_containers", std::string(kOwnBridges));
    co_return;
  }
  note_open("[docker] network_mode and isolate_network choose a network that is not the server's");
  if (!is_user_defined()) co_return;
  const std::string& name = context_.options.docker.network_mode;
  const auto found = co_await context_.engine.call({.target = network_path(name)});
  missing_.clear();
  if (!found && found.error().code == Code::NotFound) {
    missing_ = "[docker] network_mode: the engine has no network \"" + name + "\"";
  }
}

net::awaitable<Result<std::string>> DockerNetwork::ensure(std::string sandbox) {
  co_await keep_wall();
  switch (kind()) {
    case Kind::AsNamed:
      co_return context_.options.docker.network_mode;
    case Kind::Shared:
      if (!ready_) {
        if (auto made = co_await make_shared(); !made) co_return Failure(made.error());
      }
      co_return std::string(kSharedNetwork);
    case Kind::PerSandbox:
      if (auto made = co_await make_own(sandbox); !made) co_return Failure(made.error());
      co_return own_network(sandbox);
  }
  co_return fail(Code::Internal, "network of a kind that does not exist");
}

// Two servers may do this at once: the one that comes second is told that the name is taken, and finds the network.
net::awaitable<Result<void>> DockerNetwork::make_shared() {
  for (bool again = false;; again = true) {
    const auto found = co_await context_.engine.call({.target = network_path(kSharedNetwork)});
    if (found) {
      auto fits = check_shared(*found);
      if (fits) {
        const std::string bridge = bridge_of(*found);
        co_await raise_wall("opensandbox_" + bridge, bridge + '\0');
      }
      ready_ = fits.has_value();
      co_return fits;
    }
    if (found.error().code != Code::NotFound || again) co_return Failure(found.error());
    const auto made =
        co_await context_.engine.call(create_call(kSharedNetwork, kSharedMark, {{kTrafficOption, "false"}}));
    if (!made && made.error().code != Code::Conflict && !made.error().message.contains("already exists")) {
      co_return with_context("make the network of sandboxes", made.error());
    }
  }
}

net::awaitable<void> DockerNetwork::raise_wall(std::string table, std::string bridges) {
  if (!context_.facts.reaches_addresses) co_return note_open("the engine is on another machine, or without root");
  if (bridges.ends_with('\0') && ::if_nametoindex(bridges.c_str()) == 0) co_return note_open(kElsewhere);
  const config::DockerSection& docker = context_.options.docker;
  ContainerWall wall{.table = std::move(table),
                     .bridges = std::move(bridges),
                     .name_servers = resolvers_of_this_machine(),
                     .host_resolves = context_.facts.podman,
                     .allow_metadata = docker.allow_metadata,
                     .allowed = {},
                     .allow_private_networks = docker.allow_private_networks,
                     .max_connections = docker.max_connections,
                     .total_connections = docker.total_connections};
  std::ranges::copy(context_.options.egress.dns_upstream, std::back_inserter(wall.name_servers));
  for (const std::string& network : docker.allowed_networks) {
    if (const auto prefix = parse_ip_prefix(network)) wall.allowed.push_back(*prefix);
  }
  const auto raised = co_await context_.pool.run([&] { return runtime::raise_wall(wall); });
  if (!raised) co_return note_open("this server may not change the host's packet filter: " + raised.error().message);
  wall_ = std::move(wall);
  if (kind() == Kind::Shared || open_ != kElsewhere) open_.clear();  // check() knows of the others
}

net::awaitable<void> DockerNetwork::keep_wall() {
  if (!wall_) co_return;
  const auto kept = co_await context_.pool.run([wall = *wall_] { return runtime::keep_wall(wall); });
  if (!kept) note_open("the host's packet filter cannot be changed: " + kept.error().message);
}

void DockerNetwork::note_open(const std::string& reason) {
  const config::DockerSection& docker = context_.options.docker;
  if (open_ == reason || (docker.allow_metadata && docker.allow_private_networks)) return;
  open_ = reason;
  log_warn(
      "sandboxes reach the engine's host, private networks and metadata services; docs/docker.md has a table of "
      "nftables that closes them",
      {{"reason", reason}});
}

void DockerNetwork::check(const std::string& sandbox) {
  if (kind() != Kind::PerSandbox) return;
  const bool found = ::if_nametoindex(own_bridge(sandbox).c_str()) != 0;
  if (!found && open_.empty()) note_open(kElsewhere);
  if (found && open_ == kElsewhere) open_.clear();
}

net::awaitable<Result<void>> DockerNetwork::make_own(std::string sandbox) {
  const auto made = co_await context_.engine.call(
      create_call(own_network(sandbox), sandbox, {{"isolate", "true"}, {kBridgeOption, own_bridge(sandbox)}}));
  // An earlier try has made it.
  if (!made && made.error().code != Code::Conflict && !made.error().message.contains("already")) {
    co_return with_context("make the network of the sandbox", made.error());
  }
  co_return Result<void>();
}

net::awaitable<void> DockerNetwork::release(std::string sandbox) {
  if (kind() != Kind::PerSandbox) co_return;
  const auto removed =
      co_await context_.engine.call({.method = "DELETE", .target = network_path(own_network(sandbox))});
  if (!removed && removed.error().code != Code::NotFound) {
    log_warn("network not removed", {{"id", sandbox}, {"error", removed.error().message}});
  }
}

net::awaitable<void> DockerNetwork::sweep(std::vector<std::string> living) {
  if (kind() != Kind::PerSandbox) co_return;
  const std::string filters = json::serialize(json::object{{"label", json::array{kNetworkLabel}}});
  const auto listed = co_await context_.engine.call({.target = "/networks?filters=" + http::percent_encode(filters)});
  if (!listed || !listed->is_array()) co_return;
  for (const json::value& each : listed->get_array()) {
    const std::string sandbox = engine::text(each, {"Labels", kNetworkLabel});
    if (engine::text(each, {"Name"}) != own_network(sandbox) || std::ranges::find(living, sandbox) != living.end())
      continue;
    const auto created = parse_timestamp(engine::text(each, {"Created"}));
    if (created && context_.clock.now() - *created > kYoung) co_await release(sandbox);
  }
}

}  // namespace osb::runtime
