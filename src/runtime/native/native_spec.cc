#include "runtime/native/native_spec.h"

#include <algorithm>
#include <string_view>

#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_error.h"
#include "base/quantity.h"
#include "runtime/native/native_ports.h"

namespace osb::runtime {
namespace {

namespace native = api::native;

// One label of a domain name (RFC 1123).
bool is_hostname(std::string_view text) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= 63 && letter_or_digit(text.front()) && letter_or_digit(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return letter_or_digit(c) || c == '-'; });
}

Result<native::Limits> to_limits(const api::StringMap& wanted, std::string& gpus) {
  native::Limits out;
  for (const auto& [name, text] : wanted) {
    if (name == "memory") {
      const auto bytes = parse_docker_memory(text);
      if (!bytes) return api::invalid_parameter("/resourceLimits/memory", bytes.error().message);
      if (*bytes != 0) out.memory_bytes = *bytes;
    } else if (name == "cpu") {
      const auto billionths = parse_docker_cpu(text);
      if (!billionths) return api::invalid_parameter("/resourceLimits/cpu", billionths.error().message);
      out.cpu_millis = static_cast<std::uint64_t>((*billionths + 999'999) / 1'000'000);
    } else if (name == "gpu") {
      const auto count = parse_docker_gpu(text);
      if (!count) return api::invalid_parameter("/resourceLimits/gpu", count.error().message);
      gpus = *count < 0 ? "all" : std::to_string(*count);
    }
  }
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

}  // namespace

Result<native::CreateSandbox> to_native(const SandboxSpec& spec) {
  const api::CreateSandbox& wanted = *spec.create;
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
  out.env = wanted.env;
  if (wanted.resource_limits) {
    auto limits = to_limits(*wanted.resource_limits, out.gpus);
    if (!limits) return Failure(limits.error());
    out.limits = *limits;
  }
  for (std::size_t i = 0; i < wanted.volumes.size(); ++i) {
    auto volume = to_volume(wanted.volumes[i], i);
    if (!volume) return Failure(volume.error());
    out.volumes.push_back(std::move(*volume));
  }
  out.execd_token = spec.execd_token;
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
  out.ports = std::make_shared<NativePorts>(out.id, out.address, sandbox.execd_socket);
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
