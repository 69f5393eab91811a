#include "runtime/docker/container.h"

#include <algorithm>

#include "api/json.h"
#include "base/out_of_memory.h"
#include "base/parse_number.h"
#include "runtime/docker/engine_json.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

std::uint16_t port_of(const api::StringMap& labels, std::string_view name) {
  const auto found = labels.find(std::string(name));
  return found == labels.end() ? 0 : parse_number<std::uint16_t>(found->second).value_or(0);
}

std::string text_of(const api::StringMap& labels, std::string_view name) {
  const auto found = labels.find(std::string(name));
  return found == labels.end() ? "" : found->second;
}

std::vector<std::string> list_in(const api::StringMap& labels, std::string_view name) {
  const auto found = labels.find(std::string(name));
  if (found == labels.end()) return {};
  const auto value = api::parse_json(found->second);
  return value ? engine::string_list(*value, {}) : std::vector<std::string>();
}

// Engines write "0001-01-01T00:00:00Z" for never.
std::optional<Timestamp> time_at(const json::value& value, engine::Path path) {
  const auto time = parse_timestamp(engine::text(value, path));
  if (!time || *time < Timestamp{}) return std::nullopt;
  return *time;
}

std::string address_in(const json::value& inspected, const std::string& network) {
  if (auto address = engine::text(inspected, {"NetworkSettings", "Networks", network, "IPAddress"}); !address.empty()) {
    return address;
  }
  const json::value* networks = engine::find(inspected, {"NetworkSettings", "Networks"});
  if (networks != nullptr && networks->is_object()) {
    for (const auto& [name, each] : networks->get_object()) {
      if (auto address = engine::text(each, {"IPAddress"}); !address.empty()) return address;
    }
  }
  return engine::text(inspected, {"NetworkSettings", "IPAddress"});
}

// Labels that were put on this very container.
api::StringMap own_labels(const api::StringMap& labels) {
  const auto listed = labels.find(std::string(label::kMetadataKeys));
  if (listed == labels.end() || listed->second.empty()) return labels;  // made by another implementation
  api::StringMap out;
  for (const auto& [name, value] : labels) {
    if (name.starts_with(label::kPrefix)) out.emplace(name, value);
  }
  for (const std::string& name : list_in(labels, label::kMetadataKeys)) {
    if (const auto found = labels.find(name); found != labels.end()) out.insert(*found);
  }
  return out;
}

}  // namespace

std::string container_name(std::string_view sandbox) { return "sandbox-" + std::string(sandbox); }
std::string snapshot_image(std::string_view snapshot) { return "opensandbox-snapshots:" + std::string(snapshot); }

bool has_metadata_name(std::string_view name) {
  for (const std::string_view prefix : {label::kPrefix, std::string_view("org.opencontainers.image."),
                                        std::string_view("com.docker."), std::string_view("desktop.docker.")}) {
    if (name.starts_with(prefix)) return false;
  }
  return true;
}

std::vector<std::string> Container::managed_volumes() const { return list_in(labels, label::kManagedVolumes); }

bool Container::may_be_hook_failure() const {
  const auto hooks = labels.find(std::string(label::kHooks));
  return status == "exited" && exit_code != 0 && hooks != labels.end() && hooks->second == "true";
}

std::string find_hook_failure(std::string_view log) {
  constexpr std::size_t kMost = 1000;
  for (;;) {
    while (log.ends_with('\n')) log.remove_suffix(1);
    if (log.empty()) return "";
    std::string_view line = log.substr(log.rfind('\n') + 1);  // npos + 1 is 0
    log.remove_suffix(line.size());
    line.remove_prefix(std::min(line.find(' '), line.size() - 1) + 1);  // its time
    if (!line.starts_with(api::kHookFailureLine)) continue;
    line.remove_prefix(api::kHookFailureLine.size());
    return std::string(line.substr(0, kMost));
  }
}

Container read_container(const json::value& inspected, const std::string& network) {
  Container out;
  out.id = engine::text(inspected, {"Id"});
  out.labels = engine::string_map(inspected, {"Config", "Labels"});
  if (const auto id = out.labels.find(std::string(label::kId)); id != out.labels.end()) out.sandbox = id->second;
  out.status = engine::text(inspected, {"State", "Status"});
  // Podman's words for what Docker calls "created".
  if (out.status == "configured" || out.status == "initialized") out.status = "created";
  if (out.status == "stopped") out.status = "exited";
  out.pid = engine::number(inspected, {"State", "Pid"});
  out.runtime = engine::text(inspected, {"HostConfig", "Runtime"});
  out.exit_code = static_cast<int>(engine::number(inspected, {"State", "ExitCode"}));
  out.out_of_memory = engine::flag(inspected, {"State", "OOMKilled"});
  out.error = engine::text(inspected, {"State", "Error"});
  out.created_at = time_at(inspected, {"Created"});
  out.finished_at = time_at(inspected, {"State", "FinishedAt"});
  out.address = address_in(inspected, network);
  out.image = engine::text(inspected, {"Config", "Image"});
  out.command = engine::string_list(inspected, {"Config", "Cmd"});
  const std::string token = std::string(kTokenVariable) + "=";
  for (const std::string& variable : engine::string_list(inspected, {"Config", "Env"})) {
    if (variable.starts_with(token)) out.execd_token = variable.substr(token.size());
  }
  out.memory_limit = engine::number(inspected, {"HostConfig", "Memory"});
  out.execd_host_port = port_of(out.labels, label::kExecdHostPort);
  out.http_host_port = port_of(out.labels, label::kHttpHostPort);
  out.egress_host_port = port_of(out.labels, label::kEgressHostPort);
  out.egress_token = text_of(out.labels, label::kEgressToken);
  if (out.address.empty()) out.address = text_of(out.labels, label::kEgressAddress);
  return out;
}

Instance to_instance(const Container& container) {
  Instance out;
  out.id = container.sandbox;
  if (container.status == "running" || container.status == "restarting") {
    out.state = InstanceState::Running;
  } else if (container.status == "paused") {
    out.state = InstanceState::Paused;
  } else if (container.status == "removing") {
    out.state = InstanceState::Removing;
  } else if (container.status == "exited" || container.status == "dead") {
    out.state = InstanceState::Ended;
    out.exit_code = container.exit_code;
    out.ended_at = container.finished_at;
    // The engine sets the flag when any process of the container was killed for want of memory, also one that the
    // sandbox outlived.
    if (container.out_of_memory && container.exit_code == 137) {
      out.reason = kReasonOutOfMemory;
      const std::int64_t limit = container.memory_limit;
      out.message = out_of_memory_message(limit > 0 ? std::optional(static_cast<std::uint64_t>(limit)) : std::nullopt);
    } else if (!container.hook_failure.empty()) {
      out.reason = api::kReasonHookFailed;
      out.message = container.hook_failure;
    } else if (container.exit_code == 0) {
      out.reason = "CONTAINER_EXITED";
      out.message = "The sandbox container exited successfully.";
    } else {
      out.reason = "CONTAINER_EXITED_ERROR";
      out.message = "The sandbox container exited with code " + std::to_string(container.exit_code) + ".";
      if (!container.error.empty()) out.message += " " + container.error;
    }
  }
  out.address = container.address;
  out.execd_token = container.execd_token;
  out.egress_token = container.egress_token;
  out.labels = own_labels(container.labels);
  out.created_at = container.created_at;
  if (!container.labels.contains(std::string(label::kSnapshotId))) out.image = container.image;
  out.entrypoint = container.command;
  out.identifiers = {{"containerId", container.id}, {"containerName", container_name(container.sandbox)}};
  return out;
}

}  // namespace osb::runtime
