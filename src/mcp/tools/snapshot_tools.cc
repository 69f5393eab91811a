#include <algorithm>
#include <cmath>
#include <iterator>

#include "mcp/schema.h"
#include "mcp/tools/list_page.h"

namespace osb::mcp::tools {
namespace {

json::object encode_snapshot(const opensandbox::Snapshot& snapshot) {
  return {{"id", snapshot.id},
          {"sandbox_id", snapshot.sandbox_id},
          {"name", or_null(snapshot.name)},
          {"status", encode_status(snapshot.status)},
          {"created_at", opensandbox::format_timestamp(snapshot.created_at)}};
}

net::awaitable<ToolResult> snapshot_create(Call& call) {
  const auto manager = call.sandboxes().manager();
  auto made = co_await manager.create_snapshot(call.text("sandbox_id"), call.text("name"));
  if (!made) co_return tool_failure(made.error());
  if (const double wait = call.number("wait_seconds"); wait > 0) {
    made = co_await manager.wait_for_snapshot(made->id, seconds(wait));
    if (!made) co_return tool_failure(made.error());
  }
  co_return encode_snapshot(*made);
}

net::awaitable<ToolResult> snapshot_get(Call& call) {
  auto snapshot = co_await call.sandboxes().manager().snapshot(call.text("snapshot_id"));
  if (!snapshot) co_return tool_failure(snapshot.error());
  co_return encode_snapshot(*snapshot);
}

net::awaitable<ToolResult> snapshot_list(Call& call) {
  const std::string wanted = call.text("sandbox_id");
  // Nothing: all of the server's.
  std::vector<std::string> of = {wanted};
  if (wanted.empty() && call.own_only()) of = call.sandboxes().ids();
  std::vector<opensandbox::Snapshot> all;
  for (const std::string& sandbox : of) {
    opensandbox::SnapshotListOptions options;
    options.sandbox_id = sandbox;
    options.page_size = 100;
    for (bool more = true; more;) {
      ++options.page;
      auto page = co_await call.sandboxes().manager().snapshots(options);
      if (!page) co_return tool_failure(page.error());
      std::ranges::move(page->items, std::back_inserter(all));
      more = page->pagination.has_next_page;
    }
  }
  co_return list_page(call, "snapshots", all.size(), [&](std::size_t i) { return encode_snapshot(all[i]); });
}

net::awaitable<ToolResult> snapshot_delete(Call& call) {
  auto done = co_await call.sandboxes().manager().delete_snapshot(call.text("snapshot_id"));
  if (!done) co_return tool_failure(done.error());
  co_return status_result("deleted");
}

net::awaitable<ToolResult> snapshot_restore(Call& call) {
  opensandbox::CreateOptions options;
  options.snapshot_id = call.text("snapshot_id");
  const double lifetime = call.number("timeout_seconds");
  if (lifetime == 0)
    options.timeout.reset();
  else
    options.timeout = std::chrono::seconds(static_cast<std::int64_t>(std::ceil(lifetime)));
  options.env = call.text_map("env");
  options.metadata = call.text_map("metadata");
  options.ready.timeout = seconds(call.number("ready_timeout_seconds"));
  call.progress(0.3, 1.0, "Creating sandbox");
  co_return co_await make_sandbox(call, std::move(options));
}

}  // namespace

std::vector<Tool> snapshot_tools() {
  const json::object snapshot = schema::string("Snapshot identifier.");
  const json::object shape =
      schema::object({{"id", snapshot},
                      {"sandbox_id", schema::string("The sandbox it was taken of.")},
                      {"name", schema::nullable(schema::string(""))},
                      {"status", schema::object({{"state", schema::string("Creating, Ready, Failed or Deleting.")}})},
                      {"created_at", schema::string("")}});
  const json::object on_one = schema::arguments({{"snapshot_id", snapshot}});
  const auto number = [](std::string_view description, int value) {
    return schema::with_default(schema::at_least(schema::number(description), 0), value);
  };
  return {
      {.name = "snapshot_create",
       .title = "Take a snapshot",
       .description = "Keep the files of a sandbox as they are now. Returns id and status; snapshot_restore makes "
                      "sandboxes from it.",
       .input = schema::arguments({{"sandbox_id", sandbox_id_argument()},
                                   {"name", schema::nullable(schema::string(""))},
                                   {"wait_seconds", number("How long to wait until it is Ready", 60)}}),
       .output = shape,
       .run = snapshot_create},
      {.name = "snapshot_get",
       .title = "Snapshot info",
       .description = "State of a snapshot.",
       .hints = {.read_only = true},
       .input = on_one,
       .output = shape,
       .run = snapshot_get},
      {.name = "snapshot_list",
       .title = "List snapshots",
       .description = "List snapshots, of one sandbox or of all.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", schema::nullable(sandbox_id_argument())},
                                   {"limit", limit_argument()},
                                   {"cursor", cursor_argument()}}),
       .output = list_schema(shape),
       .run = snapshot_list,
       .pages = true},
      {.name = "snapshot_delete",
       .title = "Delete a snapshot",
       .description = "Delete a snapshot.",
       .hints = {.destructive = true},
       .input = on_one,
       .output = status_schema(),
       .run = snapshot_delete},
      {.name = "snapshot_restore",
       .title = "Create a sandbox from a snapshot",
       .description = "Create a sandbox with the files of a snapshot and wait until it is ready. Returns the same as "
                      "sandbox_create.",
       .input = schema::arguments({{"snapshot_id", snapshot},
                                   {"timeout_seconds", number("Lifetime. 0: until it is killed", 600)},
                                   {"ready_timeout_seconds", number("", 30)},
                                   {"env", schema::nullable(schema::string_map(""))},
                                   {"metadata", schema::nullable(schema::string_map("Labels for sandbox_list"))}}),
       .output = created_schema(),
       .run = snapshot_restore,
       .ends_itself = true},
  };
}

}  // namespace osb::mcp::tools
