#include <strings.h>

#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/sandbox/sandbox_commands.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

struct OneSandbox {
  std::string id;
};

Command& sandbox_command(Command& group, std::string name, std::string summary, std::string& id) {
  Command& command = group.command(std::move(name), std::move(summary));
  command.argument("SANDBOX_ID", id).completes(Completes::Sandboxes);
  command.formats(kFormats);
  return command;
}

Expected<std::string> canonical_state(const std::string& text) {
  constexpr const char* kStates[] = {"Failed",  "Paused",   "Pausing",    "Pending",
                                     "Running", "Stopping", "Terminated", "Unknown"};
  std::string known;
  for (const char* state : kStates) {
    if (::strcasecmp(state, text.c_str()) == 0) return state;
    known += (known.empty() ? "" : ", ") + std::string(state);
  }
  return invalid("Invalid sandbox state '" + text + "'. Valid values: " + known);
}

struct ListOptions {
  std::vector<std::string> states;
  std::vector<KeyValue> metadata;
  int page = 0, page_size = 0;
};

Outcome list(Context& context, const ListOptions& options) {
  opensandbox::ListOptions wanted;
  for (const std::string& text : options.states) {
    auto state = canonical_state(text);
    if (!state) return failed(state.error());
    wanted.states.push_back(std::move(*state));
  }
  for (const auto& [key, value] : options.metadata) wanted.metadata[key] = value;
  wanted.page = options.page;
  wanted.page_size = options.page_size;
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  context.out().busy("Fetching sandboxes...");
  auto found = manager->list(wanted);
  if (!found) return sdk_failed(context, found.error());
  json::array rows;
  const bool structured = context.out().structured();
  for (const auto& info : found->items) rows.push_back(structured ? encode(info) : encode_flat(info));
  if (structured) {
    context.out().data(json::object{{"items", std::move(rows)}, {"pagination", encode(found->pagination)}});
  } else if (rows.empty()) {
    context.out().info("No sandboxes found.");
  } else {
    context.out().rows(rows, {"id", "status", "image", "created_at", "expires_at"}, "Sandboxes");
  }
  return 0;
}

void add_list(Command& group, Context& context) {
  Command& command = group.command("list", "List sandboxes.");
  ListOptions& options = command.values<ListOptions>();
  command.option("-s,--state", "TEXT", "Only this state (Pending, Running, Paused, ..). Repeatable.", options.states);
  command.option("-m,--metadata", "KEY=VALUE", "Only with this metadata. Repeatable.", options.metadata);
  command.option("--page", "INTEGER", "Page, from 1.", options.page).range(1, 1 << 30);
  command.option("--page-size", "INTEGER", "Sandboxes per page.", options.page_size).range(1, 1 << 30);
  command.formats(kFormats);
  command.action([&context, &options] { return list(context, options); });
}

void add_get(Command& group, Context& context) {
  OneSandbox& options = group.values<OneSandbox>();
  sandbox_command(group, "get", "Show one sandbox.", options.id).action([&context, &options]() -> Outcome {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    context.out().busy("Fetching...");
    auto info = manager->get(options.id);
    if (!info) return sdk_failed(context, info.error());
    context.out().object(context.out().structured() ? encode(*info) : encode_flat(*info), "Sandbox Info");
    return 0;
  });
}

void add_kill(Command& group, Context& context) {
  struct Options {
    std::vector<std::string> ids;
  };
  Command& command = group.command("kill", "Terminate sandboxes.");
  Options& options = command.values<Options>();
  command.argument("SANDBOX_IDS", options.ids).completes(Completes::Sandboxes);
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    json::array rows;
    for (const std::string& id : options.ids) {
      context.out().busy("Killing sandbox " + id + "...");
      if (auto done = manager->kill(id); !done) return sdk_failed(context, done.error());
      rows.push_back({{"sandbox_id", id}, {"status", "terminated"}});
    }
    context.out().rows(rows, {"sandbox_id", "status"}, "Sandboxes");
    return 0;
  });
}

void add_pause(Command& group, Context& context) {
  OneSandbox& options = group.values<OneSandbox>();
  sandbox_command(group, "pause", "Pause a running sandbox.", options.id).action([&context, &options]() -> Outcome {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    context.out().busy("Pausing sandbox...");
    if (auto done = manager->pause(options.id); !done) return sdk_failed(context, done.error());
    context.out().ok("Sandbox paused: " + options.id);
    return 0;
  });
}

void add_resume(Command& group, Context& context) {
  struct Options {
    std::string id;
    bool skip = false;
    std::optional<Duration> timeout;
  };
  Options& options = group.values<Options>();
  Command& command = sandbox_command(group, "resume", "Resume a paused sandbox.", options.id);
  command.flag("--skip-health-check", "Do not wait until the sandbox answers.", options.skip);
  command.option("--resume-timeout", "DURATION", "How long to wait for it.", options.timeout);
  command.action([&context, &options]() -> Outcome {
    auto client = context.client();
    if (!client) return failed(client.error());
    opensandbox::ConnectOptions wanted;
    wanted.ready.skip = options.skip;
    if (options.timeout) wanted.ready.timeout = options.timeout->value;
    context.out().busy("Resuming sandbox...");
    auto resumed = opensandbox::Sandbox::resume(*client, options.id, wanted);
    if (!resumed) return sdk_failed(context, resumed.error());
    context.out().ok("Sandbox resumed: " + options.id);
    return 0;
  });
}

void add_renew(Command& group, Context& context) {
  struct Options {
    std::string id;
    Duration timeout;
  };
  Options& options = group.values<Options>();
  Command& command = sandbox_command(group, "renew", "Set how long a sandbox lives from now on.", options.id);
  command.option("-t,--timeout", "DURATION", "Its new lifetime, such as 30m or 2h.", options.timeout).required();
  command.action([&context, &options]() -> Outcome {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    context.out().busy("Renewing sandbox...");
    auto end = manager->renew(options.id, options.timeout.value);
    if (!end) return sdk_failed(context, end.error());
    context.out().panel("Sandbox Renewed",
                        {{"sandbox_id", options.id}, {"expires_at", opensandbox::format_timestamp(*end)}});
    return 0;
  });
}

void add_endpoint(Command& group, Context& context) {
  struct Options {
    std::string id;
    int port = 0;
  };
  Options& options = group.values<Options>();
  Command& command = sandbox_command(group, "endpoint", "Show where a port of a sandbox is reached.", options.id);
  command.option("-p,--port", "INTEGER", "Port number.", options.port).range(1, 65535).required();
  command.action([&context, &options]() -> Outcome {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    context.out().busy("Fetching...");
    auto endpoint = manager->endpoint(options.id, options.port);
    if (!endpoint) return sdk_failed(context, endpoint.error());
    context.out().object(encode(*endpoint), "Sandbox Endpoint");
    return 0;
  });
}

void add_health(Command& group, Context& context) {
  OneSandbox& options = group.values<OneSandbox>();
  sandbox_command(group, "health", "Check whether a sandbox answers.", options.id)
      .action([&context, &options]() -> Outcome {
        auto client = context.client();
        if (!client) return failed(client.error());
        opensandbox::ConnectOptions only_look_up;  // an unknown id is an error, not an unhealthy sandbox
        only_look_up.ready.skip = true;
        context.out().busy("Checking...");
        auto sandbox = opensandbox::Sandbox::connect(*client, options.id, only_look_up);
        if (!sandbox) return sdk_failed(context, sandbox.error());
        auto healthy = sandbox->is_healthy();
        if (!healthy) return sdk_failed(context, healthy.error());
        Output& out = context.out();
        if (out.structured()) {
          out.object({{"sandbox_id", options.id}, {"healthy", *healthy}});
        } else if (*healthy) {
          out.ok("Sandbox " + options.id + " is healthy");
        } else {
          out.error("Sandbox " + options.id + " is unhealthy");
        }
        return 0;
      });
}

}  // namespace

void add_sandbox_group(Command& root, Context& context) {
  Command& group = root.command("sandbox", "Create, look at and end sandboxes.");
  add_sandbox_create(group, context);
  add_list(group, context);
  add_get(group, context);
  add_kill(group, context);
  add_pause(group, context);
  add_resume(group, context);
  add_renew(group, context);
  add_endpoint(group, context);
  add_health(group, context);
  add_sandbox_metrics(group, context);
}

}  // namespace osb::cli
