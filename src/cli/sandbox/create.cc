#include <unistd.h>

#include <fmt/format.h>

#include "api/json.h"
#include "api/resource_limits.h"
#include "cli/commands.h"
#include "cli/lookup/lookup.h"
#include "cli/read_input.h"
#include "cli/sandbox/create_files.h"
#include "cli/sandbox/request_file.h"
#include "cli/sandbox/sandbox_commands.h"

namespace osb::cli {
namespace {

struct Options {
  std::optional<std::string> image, snapshot_id, template_id, request_file, name, username, password,
      network_policy_file, volumes_file;
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

// Joins the names of the options that were given.
class GivenOptions {
 public:
  void add(bool given, std::string_view option) {
    if (given) names_ += (names_.empty() ? "" : ", ") + std::string(option);
  }
  const std::string& names() const { return names_; }

 private:
  std::string names_;
};

std::string conflicts_with_template(const Options& o) {
  GivenOptions given;
  given.add(o.image.has_value(), "--image");
  given.add(o.username || o.password, "--image-auth-username/--image-auth-password");
  given.add(!o.env.empty(), "--env");
  given.add(!o.resources.empty(), "--resource");
  given.add(!o.entrypoint.empty(), "--entrypoint");
  given.add(o.volumes_file.has_value(), "--volumes-file");
  given.add(o.credential_proxy, "--credential-proxy");
  given.add(o.secure_access, "--secure-access");
  return given.names();
}

Expected<void> set_source(const Options& options, const Config& config, opensandbox::CreateOptions& out) {
  if (options.template_id) {
    if (options.snapshot_id) return invalid("--template and --snapshot-id are mutually exclusive.");
    if (const std::string given = conflicts_with_template(options); !given.empty()) {
      return invalid("Template mode fixes the workload shape on the server; " + given +
                     " cannot be combined with --template.");
    }
    out.template_id = *options.template_id;
    return {};
  }
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

// The options that a request file replaces and that were given all the same.
std::string conflicts_with_file(const Options& o) {
  GivenOptions given;
  const auto add = [&](bool is, std::string_view option) { given.add(is, option); };
  add(o.image.has_value(), "--image");
  add(o.username || o.password, "--image-auth-username/--image-auth-password");
  add(o.template_id.has_value(), "--template");
  add(o.snapshot_id.has_value(), "--snapshot-id");
  add(o.name.has_value(), "--name");
  add(o.timeout.has_value(), "--timeout");
  add(!o.env.empty(), "--env");
  add(!o.metadata.empty(), "--metadata");
  add(!o.extensions.empty(), "--extension");
  add(!o.resources.empty(), "--resource");
  add(!o.entrypoint.empty(), "--entrypoint");
  add(o.network_policy_file.has_value(), "--network-policy-file");
  add(o.credential_proxy, "--credential-proxy");
  add(o.volumes_file.has_value(), "--volumes-file");
  add(o.secure_access, "--secure-access");
  return given.names();
}

std::string timeout_text(const RequestFile& file) {
  if (!file.has_timeout) return "sdk-default";
  return file.timeout ? clock_text(std::chrono::seconds(*file.timeout)) : "manual-cleanup";
}

Outcome create_from_file(CommandIo& context, const Options& options) {
  const std::string& path = *options.request_file;
  if (auto there = must_exist("--file' / '-f", options.request_file); !there) return failed(there.error());
  if (const std::string given = conflicts_with_file(options); !given.empty()) {
    return invalid("--file cannot be combined with: " + given + ".");
  }
  auto file = read_request_file(path);
  if (!file) return failed(file.error());
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  context.out().busy("Creating sandbox...");
  const auto answer = manager->request("POST", "/sandboxes", json::serialize(file->body));
  if (!answer) return sdk_failed(context, answer.error());
  const auto made = api::parse_json(*answer);
  const json::object* sandbox = made ? made->if_object() : nullptr;
  const json::value* id = sandbox != nullptr ? sandbox->if_contains("id") : nullptr;
  if (id == nullptr || !id->is_string()) return invalid("The server's answer names no sandbox.");
  const std::string name(id->get_string());
  opensandbox::ConnectOptions wanted;
  wanted.ready.skip = options.skip_health_check;
  if (options.ready_timeout) wanted.ready.timeout = options.ready_timeout->value;
  if (auto ready = opensandbox::Sandbox::connect(manager->client(), name, wanted); !ready) {
    (void)manager->kill(name);
    return sdk_failed(context, ready.error());
  }
  const std::string kind = file->source == "image"        ? "image"
                           : file->source == "templateId" ? "template"
                                                          : "snapshot_id";
  context.out().panel("Sandbox Created", {{"id", name},
                                          {"status", "created"},
                                          {"timeout", timeout_text(*file)},
                                          {"request_file", path},
                                          {kind, file->value}});
  return 0;
}

Outcome create(CommandIo& context, const Options& options) {
  if (options.request_file) return create_from_file(context, options);
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
  if (options.template_id && !*timeout) {
    return invalid("--timeout is required when creating a sandbox from a template (e.g. --timeout 30m).");
  }
  if (options.template_id && !(*timeout)->value) {
    return invalid("--timeout none (manual cleanup) is not supported in template mode.");
  }
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

  auto manager = !wanted.template_id.empty()   ? context.manager_of_template(wanted.template_id)
                 : !wanted.snapshot_id.empty() ? context.manager_of_snapshot(wanted.snapshot_id)
                                               : context.manager();
  if (!manager) return failed(manager.error());
  context.out().busy("Creating sandbox...");
  if (options.name) {
    if (auto free = check_free_name(context, *manager, *options.name); !free) return failed(free.error());
    claim_name(wanted, *options.name);
  }
  auto sandbox = opensandbox::Sandbox::create(manager->client(), wanted);
  if (!sandbox) return sdk_failed(context, sandbox.error());
  json::object made{{"id", sandbox->id()}};
  if (!wanted.template_id.empty()) {
    made["template"] = wanted.template_id;
  } else if (wanted.snapshot_id.empty()) {
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

void add_sandbox_create(Command& group, CommandIo& context) {
  Command& command = group.command("create", "Create a sandbox from an image, a template or a snapshot.");
  Options& o = command.values<Options>();
  command.option("-i,--image", "TEXT", "Image, such as python:3.12; default: defaults.image of the config.", o.image)
      .completes(Completes::Images);
  command.option("--image-auth-username", "TEXT", "Registry user for a private image.", o.username);
  command.option("--image-auth-password", "TEXT", "Registry password or token.", o.password);
  command.option("--snapshot-id", "TEXT", "Start from this snapshot instead of an image.", o.snapshot_id)
      .completes(Completes::Snapshots);
  command.option("--template", "TEXT", "Start from this template instead of an image.", o.template_id);
  command.option("-f,--file", "PATH", "JSON of the API's create request instead of the other options.", o.request_file)
      .completes(Completes::Files);
  command.option("--name", "NAME", "A name for it, to be used instead of its id.", o.name);
  command.option("-t,--timeout", "DURATION", "Lifetime (10m, 1h30m), or none: lives until it is killed.", o.timeout);
  command.option("-e,--env", "KEY=VALUE", "Environment variable. Repeatable.", o.env);
  command.option("-m,--metadata", "KEY=VALUE", "Metadata. Repeatable.", o.metadata);
  command.option("--extension", "KEY=VALUE", "Extension parameter. Repeatable.", o.extensions);
  command.option("--resource", "KEY=VALUE",
                 "Limit, as in memory=2Gi. Repeatable. Names: " + api::resource_limit_names() + ".", o.resources);
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
