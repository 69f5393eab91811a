#include "cli/encode.h"
#include "cli/lookup/lookup.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

using opensandbox::Snapshot;

json::object to_json(const Snapshot& snapshot) {
  return {{"id", snapshot.id},
          {"sandbox_id", snapshot.sandbox_id},
          {"name", text_or_null(snapshot.name)},
          {"status", encode(snapshot.status)},
          {"created_at", opensandbox::format_timestamp(snapshot.created_at)}};
}

json::object to_row(const Snapshot& snapshot) {
  json::object out = to_json(snapshot);
  out["status"] = snapshot.status.state;
  if (!snapshot.status.message.empty() && snapshot.status.state == "Failed") out["message"] = snapshot.status.message;
  return out;
}

void show(CommandIo& context, const Snapshot& snapshot) {
  context.out().object(context.out().structured() ? to_json(snapshot) : to_row(snapshot), "Snapshot Info");
}

struct Options {
  std::string id, name;
  std::vector<std::string> ids, states;
  std::string sandbox;
  std::int64_t page = 0, page_size = 0;
  bool wait = false, no_wait = false;
  Duration timeout{std::chrono::seconds(600)};
};

Outcome create(CommandIo& context, Options& options) {
  auto manager = context.manager_of_sandbox(options.id);
  if (!manager) return failed(manager.error());
  Spinner spinner(context.out(), "Taking a snapshot of " + options.id);
  auto snapshot = manager->create_snapshot(options.id, options.name);
  if (snapshot && options.wait) snapshot = manager->wait_for_snapshot(snapshot->id, options.timeout.value);
  spinner.stop();
  if (!snapshot) return sdk_failed(context, snapshot.error());
  context.out().panel("Snapshot Created", {{"id", snapshot->id},
                                           {"sandbox_id", snapshot->sandbox_id},
                                           {"name", text_or_null(snapshot->name)},
                                           {"status", snapshot->status.state}});
  return 0;
}

Outcome list(CommandIo& context, Options& options) {
  auto manager = options.sandbox.empty() ? context.manager() : context.manager_of_sandbox(options.sandbox);
  if (!manager) return failed(manager.error());
  Spinner spinner(context.out(), "Asking for the snapshots");
  auto found = manager->snapshots({.sandbox_id = options.sandbox,
                                   .name = options.name,
                                   .states = options.states,
                                   .page = static_cast<int>(options.page),
                                   .page_size = static_cast<int>(options.page_size)});
  spinner.stop();
  if (!found) return sdk_failed(context, found.error());
  json::array rows;
  const bool structured = context.out().structured();
  for (const Snapshot& each : found->items) rows.push_back(structured ? to_json(each) : to_row(each));
  if (structured) {
    context.out().data(json::object{{"items", std::move(rows)}, {"pagination", encode(found->pagination)}});
  } else if (rows.empty()) {
    context.out().info("No snapshots found.");
  } else {
    using Kind = Column::Kind;
    context.out().table(rows, {{.key = "id", .kind = Kind::Id},
                               {.key = "name", .rank = 2, .least = 12},
                               {.key = "status"},
                               {.key = "sandbox_id", .kind = Kind::Id, .rank = 4, .header = "sandbox"},
                               {.key = "created_at", .kind = Kind::Age, .rank = 3, .header = "created"},
                               {.key = "message", .place = Column::Place::Wide}});
  }
  return 0;
}

Outcome get(CommandIo& context, Options& options) {
  auto manager = context.manager_of_snapshot(options.id);
  if (!manager) return failed(manager.error());
  auto snapshot = manager->snapshot(options.id);
  if (!snapshot) return sdk_failed(context, snapshot.error());
  show(context, *snapshot);
  return 0;
}

Outcome remove(CommandIo& context, Options& options) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  json::array rows;
  Spinner spinner(context.out(), "Deleting");
  for (std::string& id : options.ids) {
    auto found = find_snapshot(context, *manager, id);
    if (!found) return failed(found.error());
    id = std::move(*found);
    if (auto removed = manager->delete_snapshot(id); !removed) return sdk_failed(context, removed.error());
    rows.push_back(json::object{{"snapshot_id", id}, {"status", "deleted"}});
  }
  spinner.stop();
  if (rows.size() == 1) {
    context.out().ok("Snapshot deleted: " + options.ids.front());
  } else {
    context.out().rows(rows, {"snapshot_id", "status"});
  }
  return 0;
}

}  // namespace

void add_snapshot_group(Command& root, CommandIo& context) {
  Command& group = root.command("snapshot", "Keep the files of a sandbox and start others from them.");
  const std::vector<Format> formats = {Format::Table, Format::Json, Format::Yaml};
  {
    Command& command = group.command("create", "Take a snapshot of a sandbox.");
    Options& options = command.values<Options>();
    command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
    command.option("-n,--name", "TEXT", "A name for it.", options.name);
    command.flag("--wait", "Wait until it is ready.", options.wait);
    command.flag("--no-wait", "The default; for older scripts.", options.no_wait);
    command.option("--timeout", "DURATION", "How long --wait waits; ten minutes.", options.timeout);
    command.formats(formats).action([&context, &options] { return create(context, options); });
  }
  {
    Command& command = group.command("list", "List snapshots.");
    Options& options = command.values<Options>();
    command.option("--sandbox-id,--sandbox", "ID", "Of this sandbox only.", options.sandbox)
        .completes(Completes::Sandboxes);
    command.option("-n,--name", "TEXT", "With this name only.", options.name);
    command.option("-s,--state", "STATE", "In this state; repeatable.", options.states)
        .choices({"Creating", "Ready", "Failed", "Deleting"});
    command.option("--page", "N", "Page, from 1.", options.page).range(1);
    command.option("--page-size", "N", "Items per page.", options.page_size).range(1);
    command.formats({Format::Table, Format::Wide, Format::Json, Format::Yaml}).action([&context, &options] {
      return list(context, options);
    });
  }
  {
    Command& command = group.command("get", "Show one snapshot.");
    Options& options = command.values<Options>();
    command.argument("SNAPSHOT_ID", options.id).completes(Completes::Snapshots);
    command.formats(formats).action([&context, &options] { return get(context, options); });
  }
  {
    Command& command = group.command("delete", "Delete snapshots.");
    Options& options = command.values<Options>();
    command.argument("SNAPSHOT_ID", options.ids).completes(Completes::Snapshots);
    command.formats(formats).action([&context, &options] { return remove(context, options); });
  }
}

}  // namespace osb::cli
