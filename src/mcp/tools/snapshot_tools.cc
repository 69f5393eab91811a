#include <cmath>

#include "mcp/schema.h"
#include "mcp/tools/tools.h"

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
  json::array out;
  for (const std::string& sandbox : of) {
    opensandbox::SnapshotListOptions options;
    options.sandbox_id = sandbox;
    options.page_size = 100;
    for (bool more = true; more;) {
      ++options.page;
      auto page = co_await call.sandboxes().manager().snapshots(options);
      if (!page) co_return tool_failure(page.error());
      for (const auto& snapshot : page->items) out.push_back(encode_snapshot(snapshot));
      more = page->pagination.has_next_page;
    }
  }
  co_return out;
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
      {"snapshot_create",
       "Take a snapshot",
       "Keep the files of a sandbox as they are now; snapshot_restore makes sandboxes of them.",
       {},
       schema::arguments({{"sandbox_id", sandbox_id_argument()},
                          {"name", schema::nullable(schema::string("A name to find it by."))},
                          {"wait_seconds", number("How long to wait until it is Ready; 0: do not wait.", 60)}}),
       shape,
       snapshot_create},
      {"snapshot_get", "Snapshot info", "State of a snapshot.", {.read_only = true}, on_one, shape, snapshot_get},
      {"snapshot_list",
       "List snapshots",
       "List snapshots, of one sandbox or of all.",
       {.read_only = true},
       schema::arguments({{"sandbox_id", schema::nullable(sandbox_id_argument())}}),
       schema::object({{"result", schema::list_of(shape, "")}}),
       snapshot_list},
      {"snapshot_delete",
       "Delete a snapshot",
       "Delete a snapshot.",
       {.destructive = true},
       on_one,
       status_schema(),
       snapshot_delete},
      {"snapshot_restore",
       "Create a sandbox from a snapshot",
       "Create a new sandbox with the files of a snapshot and wait until it is ready.",
       {},
       schema::arguments({{"snapshot_id", snapshot},
                          {"timeout_seconds", number("Lifetime in seconds. 0: until it is killed.", 600)},
                          {"ready_timeout_seconds", number("How long to wait until it is ready.", 30)},
                          {"env", schema::nullable(schema::string_map("Environment variables of the sandbox."))},
                          {"metadata", schema::nullable(schema::string_map("Labels to find it by."))}}),
       created_schema(),
       snapshot_restore,
       true},
  };
}

}  // namespace osb::mcp::tools
