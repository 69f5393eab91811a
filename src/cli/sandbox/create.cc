#include <unistd.h>

#include <fmt/format.h>

#include "api/json.h"
#include "cli/commands.h"
#include "cli/lookup/lookup.h"
#include "cli/read_input.h"
#include "cli/sandbox/create_files.h"
#include "cli/sandbox/sandbox_commands.h"

namespace osb::cli {
namespace {

struct Options {
  std::optional<std::string> image, snapshot_id, name, username, password, network_policy_file, volumes_file;
  std::optional<NullableDuration> timeout;
  std::vector<KeyValue> env, metadata, extensions, resources;
  std::vector<std::string> entrypoint;
  bool credential_proxy = false, secure_access = false, skip_health_check = false;
  std::optional<Duration> ready_timeout;
};

// H:MM:SS, with days in front where there are any, as the original writes it.
std::string clock_text(std::chrono::seconds time) {
  const auto total = time.count();
  const auto days = total / 86400;
  const std::string rest = fmt::format("{}:{:02}:{:02}", total % 86400 / 3600, total % 3600 / 60, total % 60);
  return days == 0 ? rest : fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", rest);
}

opensandbox::StringMap to_map(const std::vector<KeyValue>& pairs) {
  opensandbox::StringMap out;
  for (const auto& [key, value] : pairs) out[key] = value;
  return out;
}

Expected<void> set_source(const Options& options, const Config& config, opensandbox::CreateOptions& out) {
  if (options.snapshot_id) {
    if (options.image) return invalid("--snapshot-id and --image are mutually exclusive.");
    if (options.username || options.password)
      return invalid("--snapshot-id cannot be combined with image auth options.");
    out.snapshot_id = *options.snapshot_id;
    return {};
  }
  out.image = options.image.value_or(config.default_image.value_or(""));
  if (out.image.empty()) {
    return invalid("Sandbox image is required.", "Pass --image or set defaults.image in the CLI config.");
  }
  if (options.username.value_or("").empty() != options.password.value_or("").empty()) {
    return invalid("Pass both --image-auth-username and --image-auth-password together.");
  }
  if (options.username && !options.username->empty()) out.image_auth = {{*options.username, *options.password}};
  return {};
}

Expected<std::optional<NullableDuration>> wanted_timeout(const Options& options, const Config& config) {
  if (options.timeout) return options.timeout;
  if (!config.default_timeout) return std::nullopt;
  NullableDuration parsed;
  if (auto complaint = parse_value(*config.default_timeout, parsed)) {
    return invalid("defaults.timeout of the config file: " + *complaint);
  }
  return parsed;
}

Expected<void> must_exist(const char* option, const std::optional<std::string>& path) {
  if (!path || ::access(path->c_str(), F_OK) == 0) return {};
  return usage_error("Invalid value for '" + std::string(option) + "': Path '" + *path + "' does not exist.");
}

Outcome create(Context& context, const Options& options) {
  if (auto there = must_exist("--network-policy-file", options.network_policy_file); !there)
    return failed(there.error());
  if (auto there = must_exist("--volumes-file", options.volumes_file); !there) return failed(there.error());
  opensandbox::CreateOptions wanted;
  if (auto source = set_source(options, context.config(), wanted); !source) return failed(source.error());
  if (options.credential_proxy && !options.network_policy_file) {
    return invalid(
        "--credential-proxy requires --network-policy-file: credentials are injected where egress is checked.");
  }
  auto timeout = wanted_timeout(options, context.config());
  if (!timeout) return failed(timeout.error());
  if (*timeout) wanted.timeout = (*timeout)->value;
  wanted.env = to_map(options.env);
  wanted.metadata = to_map(options.metadata);
  wanted.extensions = to_map(options.extensions);
  if (!options.resources.empty()) wanted.resource_limits = to_map(options.resources);
  if (!options.entrypoint.empty()) wanted.entrypoint = options.entrypoint;
  if (options.network_policy_file) {
    auto policy = read_network_policy(*options.network_policy_file);
    if (!policy) return failed(policy.error());
    wanted.network_policy = std::move(*policy);
  }
  if (options.volumes_file) {
    auto volumes = read_volumes(*options.volumes_file);
    if (!volumes) return failed(volumes.error());
    wanted.volumes = std::move(*volumes);
  }
  wanted.credential_proxy = options.credential_proxy;
  wanted.secure_access = options.secure_access;
  wanted.ready.skip = options.skip_health_check;
  if (options.ready_timeout) wanted.ready.timeout = options.ready_timeout->value;

  auto manager = wanted.snapshot_id.empty() ? context.manager() : context.manager_of_snapshot(wanted.snapshot_id);
  if (!manager) return failed(manager.error());
  context.out().busy("Creating sandbox...");
  if (options.name) {
    if (auto free = check_free_name(context, *manager, *options.name); !free) return failed(free.error());
    claim_name(wanted, *options.name);
  }
  auto sandbox = opensandbox::Sandbox::create(manager->client(), wanted);
  if (!sandbox) return sdk_failed(context, sandbox.error());
  json::object made{{"id", sandbox->id()}};
  if (wanted.snapshot_id.empty()) {
    made["image"] = wanted.image;
  } else {
    made["snapshot_id"] = wanted.snapshot_id;
  }
  if (options.name) made["name"] = *options.name;
  made["status"] = "created";
  made["timeout"] = !*timeout ? "sdk-default" : !(*timeout)->value ? "manual-cleanup" : clock_text(*(*timeout)->value);
  context.out().panel("Sandbox Created", made);
  return 0;
}

}  // namespace

void add_sandbox_create(Command& group, Context& context) {
  Command& command = group.command("create", "Create a sandbox from an image or a snapshot.");
  Options& o = command.values<Options>();
  command.option("-i,--image", "TEXT", "Image, such as python:3.12; default: defaults.image of the config.", o.image)
      .completes(Completes::Images);
  command.option("--image-auth-username", "TEXT", "Registry user for a private image.", o.username);
  command.option("--image-auth-password", "TEXT", "Registry password or token.", o.password);
  command.option("--snapshot-id", "TEXT", "Start from this snapshot instead of an image.", o.snapshot_id)
      .completes(Completes::Snapshots);
  command.option("--name", "NAME", "A name for it, to be used instead of its id.", o.name);
  command.option("-t,--timeout", "DURATION", "Lifetime (10m, 1h30m), or none: lives until it is killed.", o.timeout);
  command.option("-e,--env", "KEY=VALUE", "Environment variable. Repeatable.", o.env);
  command.option("-m,--metadata", "KEY=VALUE", "Metadata. Repeatable.", o.metadata);
  command.option("--extension", "KEY=VALUE", "Extension parameter. Repeatable.", o.extensions);
  command.option("--resource", "KEY=VALUE", "Limit, such as cpu=1 or memory=2Gi. Repeatable.", o.resources);
  command.option("--entrypoint", "TEXT", "One word of the entrypoint. Repeatable.", o.entrypoint);
  command.option("--network-policy-file", "PATH", "JSON object: defaultAction, egress.", o.network_policy_file)
      .completes(Completes::Files);
  command.flag("--credential-proxy", "Let the credential vault add secrets to requests.", o.credential_proxy);
  command.option("--volumes-file", "PATH", "JSON array of volumes.", o.volumes_file).completes(Completes::Files);
  command.flag("--secure-access", "Endpoints need a token.", o.secure_access);
  command.flag("--skip-health-check", "Do not wait until the sandbox answers.", o.skip_health_check);
  command.option("--ready-timeout", "DURATION", "How long to wait for it.", o.ready_timeout);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &o] { return create(context, o); });
}

}  // namespace osb::cli
