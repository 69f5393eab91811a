#include "runtime/native/native_spec.h"

#include <algorithm>
#include <string_view>

#include "api/egress_environment.h"
#include "api/isolation_extension.h"
#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_error.h"
#include "api/resource_limits.h"
#include "base/text.h"
#include "runtime/native/native_ports.h"
#include "runtime/policy_mode.h"

namespace osb::runtime {
namespace {

namespace native = api::native;

// One label of a domain name (RFC 1123).
bool is_hostname(std::string_view text) {
  const auto letter_or_digit = [](char c) { return is_letter_or_digit(c); };
  return !text.empty() && text.size() <= 63 && letter_or_digit(text.front()) && letter_or_digit(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return letter_or_digit(c) || c == '-'; });
}

native::Limits to_limits(const api::ResourceLimits& wanted) {
  native::Limits out;
  out.memory_bytes = wanted.memory_bytes;
  if (wanted.nano_cpus) out.cpu_millis = static_cast<std::uint64_t>((*wanted.nano_cpus + 999'999) / 1'000'000);
  out.disk_bytes = wanted.disk_bytes;
  out.pids = wanted.pids;
  out.io_read_bps = wanted.io_read_bps;
  out.io_write_bps = wanted.io_write_bps;
  out.io_read_iops = wanted.io_read_iops;
  out.io_write_iops = wanted.io_write_iops;
  out.network_receive_bps = wanted.network_receive_bps;
  out.network_send_bps = wanted.network_send_bps;
  return out;
}

// The host name, which people see in prompts: the metadata `name` where it can be a host name, else made from the id.
std::string hostname_of(const SandboxSpec& spec) {
  if (spec.create->metadata) {
    const auto name = spec.create->metadata->find("name");
    if (name != spec.create->metadata->end() && is_hostname(name->second)) return name->second;
  }
  return "sandbox-" + spec.id.substr(0, 8);
}

Result<native::Volume> to_volume(const api::Volume& volume, std::size_t index) {
  native::Volume out;
  out.target = volume.mount_path;
  out.sub_path = volume.sub_path;
  out.read_only = volume.read_only;
  if (volume.host) {
    out.kind = native::VolumeKind::Host;
    out.source = volume.host->path;
  } else if (volume.pvc) {
    out.kind = native::VolumeKind::Named;
    out.source = volume.pvc->claim_name;
    out.create = volume.pvc->create_if_not_exists;
    out.delete_with_sandbox = volume.pvc->delete_on_sandbox_termination;
  } else {
    return api::invalid_parameter("/volumes/" + std::to_string(index),
                                  "the native backend has host paths and named volumes (pvc) only");
  }
  return out;
}

// One process serves all sandboxes of the host and calls no webhook for one of them. Ignoring the variable would look
// like a sandbox that was never denied anything.
Result<void> check_webhook(const api::CreateSandbox& wanted) {
  const auto webhook = wanted.env.find(std::string(api::kDenyWebhookVariable));
  if (!wanted.network_policy || webhook == wanted.env.end() || webhook->second.empty()) return {};
  return api::invalid_parameter(
      "/env/" + webhook->first,
      "the native backend calls the operator's webhook only; GET /decisions of port 18080 tells what was denied");
}

}  // namespace

Result<native::CreateSandbox> to_native(const SandboxSpec& spec) {
  const api::CreateSandbox& wanted = *spec.create;
  if (auto ok = check_webhook(wanted); !ok) return Failure(ok.error());
  native::CreateSandbox out;
  out.id = spec.id;
  if (wanted.image) {
    out.image = wanted.image->uri;
    if (wanted.image->auth)
      out.login = native::RegistryLogin{wanted.image->auth->username, wanted.image->auth->password};
  }
  out.snapshot = wanted.snapshot_id;
  if (wanted.platform) out.platform = wanted.platform->os + "/" + wanted.platform->arch;
  auto words = api::entrypoint_words(wanted.entrypoint);
  if (!words) return Failure(words.error());
  out.entrypoint = std::move(*words);
  out.requested_entrypoint = wanted.entrypoint;
  out.hostname = hostname_of(spec);
  out.env = api::sandbox_environment(wanted.env, wanted.network_policy.has_value());
  out.env[std::string(api::kIdVariable)] = spec.id;
  // Also without hooks: the image's variable of that name, or a snapshot's, must not bring some.
  out.env[std::string(api::kHooksVariable)] = api::encode_hooks(wanted.lifecycle);
  const auto limits = api::read_resource_limits(wanted.resource_limits);
  if (!limits) return Failure(limits.error());
  out.limits = to_limits(*limits);
  if (limits->gpus != 0) out.gpus = limits->gpus < 0 ? "all" : std::to_string(limits->gpus);
  for (std::size_t i = 0; i < wanted.volumes.size(); ++i) {
    auto volume = to_volume(wanted.volumes[i], i);
    if (!volume) return Failure(volume.error());
    out.volumes.push_back(std::move(*volume));
  }
  out.isolated_sessions = api::wants_isolation(wanted.extensions);
  out.execd_token = spec.execd_token;
  out.network_policy = wanted.network_policy;
  out.egress_token = spec.egress_token;
  out.audit_policy = out.network_policy && is_audited(wanted);
  out.credential_proxy = is_intercepted(wanted);
  if (out.credential_proxy) out.env[std::string(api::kInterceptVariable)] = "true";
  out.labels = spec.labels;
  return out;
}

Instance to_instance(const native::SandboxStatus& sandbox) {
  Instance out;
  out.id = sandbox.id;
  switch (sandbox.state) {
    case native::State::Creating:
      out.state = InstanceState::Creating;
      break;
    case native::State::Running:
      out.state = InstanceState::Running;
      break;
    case native::State::Paused:
      out.state = InstanceState::Paused;
      break;
    case native::State::Removing:
      out.state = InstanceState::Removing;
      break;
    case native::State::Exited:
    case native::State::Failed:
      out.state = InstanceState::Ended;
      break;
  }
  out.reason = sandbox.reason;
  out.message = sandbox.message;
  if (sandbox.exit) out.exit_code = sandbox.exit->code;
  // The contract's words for an ordinary end; sandboxd's own say more about the others.
  if (sandbox.reason == "EXITED") out.reason = out.exit_code == 0 ? "CONTAINER_EXITED" : "CONTAINER_EXITED_ERROR";
  out.ended_at = sandbox.ended_at;
  if (sandbox.network == native::NetworkMode::Bridge) out.address = sandbox.address;
  out.execd_token = sandbox.execd_token;
  out.egress_token = sandbox.egress_token;
  out.identifiers = {{"sandboxdId", out.id}};
  if (!out.address.empty()) out.identifiers["address"] = out.address;
  out.ports = std::make_shared<NativePorts>(out.id, out.address, sandbox.execd_socket, !sandbox.egress_token.empty());
  out.labels = sandbox.labels;
  out.entrypoint = sandbox.requested_entrypoint;
  out.created_at = sandbox.created_at;
  if (sandbox.snapshot.empty()) out.image = sandbox.image;
  return out;
}

api::StoredImage to_stored_image(const native::Image& image) {
  api::StoredImage out;
  out.uri = image.name;
  out.digest = image.digest;
  out.size_bytes = image.bytes;
  out.created_at = image.created_at;
  return out;
}

}  // namespace osb::runtime
