#include <strings.h>

#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/lookup/lookup.h"
#include "cli/more_commands.h"
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

const std::vector<Column> kListColumns = {
    {.key = "id", .kind = Column::Kind::Id},
    {.key = "name", .rank = 2, .least = 10, .place = Column::Place::Terminal},
    {.key = "status"},
    {.key = "image", .rank = 3, .least = 12},
    {.key = "created_at", .kind = Column::Kind::Age, .rank = 4, .header = "created"},
    {.key = "expires_at", .kind = Column::Kind::Age, .rank = 5, .header = "expires"},
    {.key = "snapshot_id", .place = Column::Place::Wide},
    {.key = "entrypoint", .place = Column::Place::Wide},
    {.key = "metadata", .place = Column::Place::Wide},
};

struct ListOptions {
  std::vector<std::string> states;
  std::vector<KeyValue> metadata;
  int page = 0, page_size = 0;
};

Outcome list(CommandIo& context, const ListOptions& options) {
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
  for (const auto& info : found->items) {
    json::object row = structured ? encode(info) : encode_flat(info);
    if (!structured) row["name"] = text_or_null(name_of(info));
    rows.push_back(std::move(row));
  }
  if (structured) {
    context.out().data(json::object{{"items", std::move(rows)}, {"pagination", encode(found->pagination)}});
  } else if (rows.empty()) {
    context.out().info("No sandboxes found.");
  } else {
    context.out().table(rows, kListColumns, "Sandboxes");
  }
  return 0;
}

Command& add_list(Command& group, CommandIo& context, std::string name, std::string summary) {
  Command& command = group.command(std::move(name), std::move(summary));
  ListOptions& options = command.values<ListOptions>();
  command.option("-s,--state", "TEXT", "Only this state (Pending, Running, Paused, ..). Repeatable.", options.states);
  command.option("-m,--metadata", "KEY=VALUE", "Only with this metadata. Repeatable.", options.metadata);
  command.option("--page", "INTEGER", "Page, from 1.", options.page).range(1, 1 << 30);
  command.option("--page-size", "INTEGER", "Sandboxes per page.", options.page_size).range(1, 1 << 30);
  command.formats({Format::Table, Format::Wide, Format::Json, Format::Yaml});
  command.action([&context, &options] { return list(context, options); });
  return command;
}

void add_get(Command& group, CommandIo& context) {
  OneSandbox& options = group.values<OneSandbox>();
  sandbox_command(group, "get", "Show one sandbox.", options.id).action([&context, &options]() -> Outcome {
    auto manager = context.manager_of_sandbox(options.id);
    if (!manager) return failed(manager.error());
    context.out().busy("Fetching...");
    auto info = manager->get(options.id);
    if (!info) return sdk_failed(context, info.error());
    context.out().object(context.out().structured() ? encode(*info) : encode_flat(*info), "Sandbox Info");
    return 0;
  });
}

void add_kill(Command& group, CommandIo& context) {
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
    for (std::string& id : options.ids) {
      context.out().busy("Killing sandbox " + id + "...");
      auto found = find_sandbox(context, *manager, id);
      if (!found) return failed(found.error());
      id = std::move(*found);
      if (auto done = manager->kill(id); !done) return sdk_failed(context, done.error());
      rows.push_back({{"sandbox_id", id}, {"status", "terminated"}});
    }
    context.out().rows(rows, {"sandbox_id", "status"}, "Sandboxes");
    return 0;
  });
}

void add_pause(Command& group, CommandIo& context) {
  OneSandbox& options = group.values<OneSandbox>();
  sandbox_command(group, "pause", "Pause a running sandbox.", options.id).action([&context, &options]() -> Outcome {
    auto manager = context.manager_of_sandbox(options.id);
    if (!manager) return failed(manager.error());
    context.out().busy("Pausing sandbox...");
    if (auto done = manager->pause(options.id); !done) return sdk_failed(context, done.error());
    context.out().ok("Pause request accepted: " + options.id);
    return 0;
  });
}

void add_resume(Command& group, CommandIo& context) {
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
    auto manager = context.manager_of_sandbox(options.id);
    if (!manager) return failed(manager.error());
    opensandbox::ConnectOptions wanted;
    wanted.ready.skip = options.skip;
    if (options.timeout) wanted.ready.timeout = options.timeout->value;
    context.out().busy("Resuming sandbox...");
    auto resumed = opensandbox::Sandbox::resume(manager->client(), options.id, wanted);
    if (!resumed) return sdk_failed(context, resumed.error());
    context.out().ok("Sandbox resumed: " + options.id);
    return 0;
  });
}

void add_renew(Command& group, CommandIo& context) {
  struct Options {
    std::string id;
    Duration timeout;
  };
  Options& options = group.values<Options>();
  Command& command = sandbox_command(group, "renew", "Set how long a sandbox lives from now on.", options.id);
  command.option("-t,--timeout", "DURATION", "Its new lifetime, such as 30m or 2h.", options.timeout).required();
  command.action([&context, &options]() -> Outcome {
    auto manager = context.manager_of_sandbox(options.id);
    if (!manager) return failed(manager.error());
    context.out().busy("Renewing sandbox...");
    auto end = manager->renew(options.id, options.timeout.value);
    if (!end) return sdk_failed(context, end.error());
    context.out().panel("Sandbox Renewed",
                        {{"sandbox_id", options.id}, {"expires_at", opensandbox::format_timestamp(*end)}});
    return 0;
  });
}

void add_endpoint(Command& group, CommandIo& context) {
  struct Options {
    std::string id;
    int port = 0;
  };
  Options& options = group.values<Options>();
  Command& command = sandbox_command(group, "endpoint", "Show where a port of a sandbox is reached.", options.id);
  command.option("-p,--port", "INTEGER", "Port number.", options.port).range(1, 65535).required();
  command.action([&context, &options]() -> Outcome {
    auto manager = context.manager_of_sandbox(options.id);
    if (!manager) return failed(manager.error());
    context.out().busy("Fetching...");
    auto endpoint = manager->endpoint(options.id, options.port);
    if (!endpoint) return sdk_failed(context, endpoint.error());
    json::object shown = encode(*endpoint);
    // For people; the fields of json and yaml are the contract's.
    if (!context.out().structured() && !endpoint->browser_url.empty()) {
      shown["browser"] = endpoint->browser_url;
    }
    context.out().object(shown, "Sandbox Endpoint");
    return 0;
  });
}

void add_health(Command& group, CommandIo& context) {
  OneSandbox& options = group.values<OneSandbox>();
  sandbox_command(group, "health", "Check whether a sandbox answers.", options.id)
      .action([&context, &options]() -> Outcome {
        auto manager = context.manager_of_sandbox(options.id);
        if (!manager) return failed(manager.error());
        opensandbox::ConnectOptions only_look_up;  // an unknown id is an error, not an unhealthy sandbox
        only_look_up.ready.skip = true;
        context.out().busy("Checking...");
        auto sandbox = opensandbox::Sandbox::connect(manager->client(), options.id, only_look_up);
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

void add_ps_command(Command& root, CommandIo& context) {
  Command& ps = add_list(root, context, "ps", "List sandboxes; the same as 'osb sandbox list'.");
  ps.flag("-a,--all", "Sandboxes of every state, as without it: for hands that know 'docker ps -a'.",
          ps.values<bool>());
}

void add_rm_command(Command& root, CommandIo& context) {
  struct Options {
    std::vector<std::string> ids;
    bool force = false;
  };
  Command& command = root.command("rm", "Remove sandboxes, even if commands run in them.");
  Options& options = command.values<Options>();
  command.argument("SANDBOX_IDS", options.ids).completes(Completes::Sandboxes);
  command.flag("-f,--force", "A sandbox that does not exist is no error.", options.force);
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    json::array rows;
    std::optional<Problem> first;  // the others are removed all the same
    for (const std::string& given : options.ids) {
      context.out().busy("Removing " + given + "...");
      const auto id = find_sandbox(context, *manager, given);
      std::optional<Problem> problem;
      if (!id) problem = id.error();
      if (const auto done = id ? manager->kill(*id) : opensandbox::Result<void>(); !done) {
        problem = sdk_failed(context, done.error()).error();
      }
      if (!problem) rows.push_back({{"sandbox_id", *id}, {"status", "removed"}});
      if (problem && (!options.force || problem->status != 404)) {
        if (first) context.out().problem(*first);
        first = std::move(problem);
      }
    }
    if (first) return failed(std::move(*first));
    context.out().rows(rows, {"sandbox_id", "status"}, "Sandboxes");
    return 0;
  });
}

void add_sandbox_group(Command& root, CommandIo& context) {
  Command& group = root.command("sandbox", "Create, look at and end sandboxes.");
  add_sandbox_create(group, context);
  add_list(group, context, "list", "List sandboxes.");
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
