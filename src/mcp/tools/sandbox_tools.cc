#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "mcp/schema.h"
#include "mcp/tools/list_page.h"

namespace osb::mcp::tools {
namespace {

constexpr int kDefaultPageSize = 20;
constexpr std::size_t kOtherListFields = 512;  // of a result, encoded

opensandbox::ReadyOptions ready_options(const Call& call, std::string_view timeout) {
  opensandbox::ReadyOptions out;
  out.timeout = seconds(call.number(timeout));
  out.poll_interval = std::chrono::milliseconds(call.integer("health_check_polling_interval_ms"));
  out.skip = call.flag("skip_health_check");
  return out;
}

std::optional<opensandbox::NetworkPolicy> network_policy(const json::value& value) {
  const json::object* given = value.if_object();
  if (given == nullptr) return std::nullopt;
  opensandbox::NetworkPolicy out;
  out.default_action = given->at("defaultAction").as_string();
  if (const json::array* rules = given->at("egress").if_array()) {
    for (const json::value& rule : *rules) {
      out.egress.push_back({std::string(rule.at("action").as_string()), std::string(rule.at("target").as_string())});
    }
  }
  return out;
}

net::awaitable<ToolResult> sandbox_create(Call& call) {
  call.progress(0.1, 1.0, "Validating input");
  opensandbox::CreateOptions options;
  options.image = call.text("image");
  const std::string user = call.text("auth_username");
  const std::string password = call.text("auth_password");
  if (user.empty() != password.empty()) {
    co_return tool_failure("INVALID_ARGUMENT", "auth_username and auth_password must be provided together");
  }
  if (!user.empty()) options.image_auth = opensandbox::ImageAuth{user, password};
  const double lifetime = call.number("timeout_seconds");
  if (lifetime == 0)
    options.timeout.reset();
  else
    options.timeout = std::chrono::seconds(static_cast<std::int64_t>(std::ceil(lifetime)));
  options.env = call.text_map("env");
  options.metadata = call.text_map("metadata");
  options.extensions = call.text_map("extensions");
  if (call.argument("resource").is_object()) options.resource_limits = call.text_map("resource");
  if (call.argument("entrypoint").is_array()) options.entrypoint = call.texts("entrypoint");
  options.network_policy = network_policy(call.argument("network_policy"));
  options.ready = ready_options(call, "ready_timeout_seconds");
  call.progress(0.3, 1.0, "Creating sandbox");
  co_return co_await make_sandbox(call, std::move(options));
}

net::awaitable<ToolResult> sandbox_connect(Call& call) {
  const std::string id = call.text("sandbox_id");
  sdk::ConnectOptions options;
  options.ready = ready_options(call, "connect_timeout_seconds");
  auto connected = co_await sdk::Sandbox::connect(call.sandboxes().client(), id, options);
  if (!connected) co_return tool_failure(connected.error());
  auto info = co_await connected->info();
  if (!info) co_return tool_failure(info.error());
  call.sandboxes().add(*connected, false);
  co_return json::object{{"sandbox_id", id}, {"info", encode_info(call, *info)}};
}

net::awaitable<ToolResult> sandbox_kill(Call& call) {
  const std::string id = call.text("sandbox_id");
  auto killed = co_await call.sandboxes().manager().kill(id);
  // A sandbox that is gone is forgotten, too.
  if (killed || killed.error().not_found()) call.sandboxes().remove(id);
  if (!killed) co_return tool_failure(killed.error());
  co_return status_result("killed");
}

net::awaitable<ToolResult> sandbox_get_info(Call& call) {
  auto info = co_await call.sandboxes().manager().get(call.text("sandbox_id"));
  if (!info) co_return tool_failure(info.error());
  co_return encode_info(call, *info);
}

bool matches(const opensandbox::SandboxInfo& info, const opensandbox::ListOptions& wanted) {
  const auto& states = wanted.states;
  if (!states.empty() && std::ranges::find(states, info.status.state) == states.end()) return false;
  return std::ranges::all_of(wanted.metadata, [&](const auto& pair) {
    if (!info.metadata) return false;
    const auto has = info.metadata->find(pair.first);
    return has != info.metadata->end() && has->second == pair.second;
  });
}

// The client's own sandboxes, one by one; those that are gone are left out.
net::awaitable<opensandbox::Result<opensandbox::SandboxList>> list_own(Call& call, opensandbox::ListOptions wanted) {
  std::vector<opensandbox::SandboxInfo> all;
  for (const std::string& id : call.sandboxes().ids()) {
    auto info = co_await call.sandboxes().manager().get(id);
    if (!info && !info.error().not_found()) co_return opensandbox::Failure(info.error());
    if (info && matches(*info, wanted)) all.push_back(std::move(*info));
  }
  std::ranges::sort(all, std::ranges::greater(), &opensandbox::SandboxInfo::created_at);
  opensandbox::SandboxList out;
  opensandbox::Page& page = out.pagination;
  page.page = std::max(wanted.page, 1);
  page.page_size = wanted.page_size > 0 ? wanted.page_size : kDefaultPageSize;
  page.total_items = static_cast<int>(all.size());
  page.total_pages = (page.total_items + page.page_size - 1) / page.page_size;
  page.has_next_page = page.page < page.total_pages;
  const std::size_t begin = static_cast<std::size_t>(page.page - 1) * static_cast<std::size_t>(page.page_size);
  for (std::size_t i = begin; i < all.size() && out.items.size() < static_cast<std::size_t>(page.page_size); ++i) {
    out.items.push_back(std::move(all[i]));
  }
  co_return out;
}

// A page that does not fit into the reply is cut, and says which smaller pages continue it.
json::object encode_list(const Call& call, const opensandbox::SandboxList& list) {
  json::array infos;
  std::size_t used = kOtherListFields;
  for (const auto& info : list.items) {
    json::object each = encode_info(call, info);
    used += encoded_size(each);
    if (used > call.reply_bytes() && !infos.empty()) break;
    infos.push_back(std::move(each));
  }
  const opensandbox::Page& page = list.pagination;
  json::object out{{"pagination", encode_page(page)}};
  if (infos.size() < list.items.size()) {
    // Smaller pages begin where this one does if their size divides this one's.
    int size = std::max(page.page_size, 1);
    while (size > 1 && (static_cast<std::size_t>(size) > infos.size() || page.page_size % size != 0)) --size;
    infos.resize(std::min(infos.size(), static_cast<std::size_t>(size)));
    const int next = (page.page - 1) * (page.page_size / size) + 2;
    out["truncated"] = true;
    out["note"] = fmt::format("{} of {} sandboxes of this page; continue with page_size={}, page={}", infos.size(),
                              list.items.size(), size, next);
  }
  out["sandbox_infos"] = std::move(infos);
  return out;
}

net::awaitable<ToolResult> sandbox_list(Call& call) {
  call.progress(0.1, 1.0, "Listing sandboxes");
  opensandbox::ListOptions wanted;
  if (const json::object* filter = call.argument("filter").if_object()) {
    if (const json::array* states = filter->at("states").if_array()) {
      for (const json::value& state : *states) wanted.states.emplace_back(state.as_string());
    }
    if (const json::object* metadata = filter->at("metadata").if_object()) {
      for (const auto& [key, value] : *metadata) wanted.metadata.emplace(key, value.as_string());
    }
    if (const std::int64_t* page = filter->at("page").if_int64()) wanted.page = static_cast<int>(*page);
    if (const std::int64_t* size = filter->at("page_size").if_int64()) wanted.page_size = static_cast<int>(*size);
  }
  auto listed = call.own_only() ? co_await list_own(call, wanted) : co_await call.sandboxes().manager().list(wanted);
  if (!listed) co_return tool_failure(listed.error());
  call.progress(1.0, 1.0, "Done");
  co_return encode_list(call, *listed);
}

net::awaitable<ToolResult> sandbox_renew(Call& call) {
  auto until =
      co_await call.sandboxes().manager().renew(call.text("sandbox_id"), seconds(call.number("timeout_seconds")));
  if (!until) co_return tool_failure(until.error());
  co_return json::object{{"expires_at", opensandbox::format_timestamp(*until)}};
}

net::awaitable<ToolResult> sandbox_pause(Call& call) {
  auto paused = co_await call.sandboxes().manager().pause(call.text("sandbox_id"));
  if (!paused) co_return tool_failure(paused.error());
  co_return status_result("paused");
}

net::awaitable<ToolResult> sandbox_resume(Call& call) {
  auto resumed = co_await sdk::Sandbox::resume(call.sandboxes().client(), call.text("sandbox_id"));
  if (!resumed) co_return tool_failure(resumed.error());
  call.sandboxes().add(*resumed, false);
  co_return status_result("resumed");
}

net::awaitable<ToolResult> sandbox_patch_metadata(Call& call) {
  opensandbox::MetadataPatch patch;
  for (const auto& [key, value] : call.argument("metadata").as_object()) {
    patch[key] = value.is_null() ? std::nullopt : std::optional<std::string>(value.as_string());
  }
  auto info = co_await call.sandboxes().manager().patch_metadata(call.text("sandbox_id"), std::move(patch));
  if (!info) co_return tool_failure(info.error());
  co_return encode_info(call, *info);
}

net::awaitable<ToolResult> sandbox_get_metrics(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto metrics = co_await sandbox->metrics();
  if (!metrics) co_return tool_failure(metrics.error());
  co_return json::object{{"cpu_count", metrics->cpu_count},
                         {"cpu_used_percentage", metrics->cpu_used_pct},
                         {"memory_total_in_mib", metrics->mem_total_mib},
                         {"memory_used_in_mib", metrics->mem_used_mib},
                         {"timestamp", metrics->timestamp}};
}

net::awaitable<ToolResult> sandbox_healthcheck(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const auto healthy = co_await sandbox->is_healthy();
  co_return json::object{{"sandbox_id", sandbox->id()}, {"healthy", healthy && *healthy}};
}

net::awaitable<ToolResult> sandbox_get_endpoint(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto endpoint = co_await sandbox->endpoint(static_cast<int>(call.integer("port")));
  if (!endpoint) co_return tool_failure(endpoint.error());
  json::object headers;
  for (const auto& [name, value] : endpoint->headers) headers[name] = value;
  co_return json::object{{"endpoint", endpoint->endpoint}, {"headers", std::move(headers)}};
}

json::object policy_argument() {
  const auto rule = schema::object(
      {{"action", schema::one_of({"allow", "deny"}, "")}, {"target", schema::string("Name, *.name, address or CIDR")}});
  return schema::nullable(
      schema::object({{"defaultAction", schema::with_default(schema::one_of({"allow", "deny"}, ""), "deny")},
                      {"egress", schema::nullable(schema::list_of(rule, "First match wins"))}},
                     "Which hosts the sandbox may reach"));
}

json::object filter_argument() {
  return schema::nullable(
      schema::object({{"states", schema::nullable(schema::string_list("Any of these"))},
                      {"metadata", schema::nullable(schema::string_map("All of these"))},
                      {"page_size", schema::nullable(schema::at_most(schema::at_least(schema::integer(""), 1), 200))},
                      {"page", schema::nullable(schema::at_least(schema::integer(""), 1))}},
                     ""));
}

json::object page_schema() {
  return schema::object({{"page", schema::integer("")},
                         {"page_size", schema::integer("")},
                         {"total_items", schema::integer("")},
                         {"total_pages", schema::integer("")},
                         {"has_next_page", schema::boolean("")}});
}

json::object poll_argument() { return schema::with_default(schema::at_least(schema::integer(""), 1), 200); }

json::object skip_argument() { return schema::with_default(schema::boolean("Do not wait until it is ready"), false); }

json::object seconds_argument(std::string_view description, json::value value) {
  return schema::with_default(schema::at_least(schema::number(description), 0), std::move(value));
}

json::object metadata_patch_argument() {
  json::object map = schema::string_map("");
  map["additionalProperties"] = schema::nullable(schema::string(""));
  map["additionalProperties"].as_object().erase("default");
  return map;
}

}  // namespace

net::awaitable<ToolResult> make_sandbox(Call& call, opensandbox::CreateOptions options) {
  auto made = co_await sdk::Sandbox::create(call.sandboxes().client(), std::move(options));
  if (!made) co_return tool_failure(made.error());
  call.sandboxes().add(*made, true);
  if (call.cancelled()) {
    if (co_await made->kill()) call.sandboxes().remove(made->id());
    co_return tool_failure("CANCELLED", "the call was cancelled; its sandbox has been removed");
  }
  call.progress(0.8, 1.0, "Fetching sandbox info");
  auto info = co_await made->info();
  if (!info) co_return tool_failure(info.error());
  call.progress(1.0, 1.0, "Done");
  co_return json::object{{"sandbox_id", made->id()}, {"info", encode_info(call, *info)}};
}

std::vector<Tool> sandbox_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object on_one = schema::arguments({{"sandbox_id", id}});
  const json::object in_one = schema::arguments({{"sandbox_id", id}, {"connect_if_missing", connect}});
  return {
      {.name = "sandbox_create",
       .title = "Create a sandbox",
       .description =
           "Create a sandbox from a container image and wait until it is ready. Returns sandbox_id and info. "
           "The sandbox ends after timeout_seconds (sandbox_renew extends it), with sandbox_kill, and "
           "usually when this connection ends.",
       .input = schema::arguments({
           {"image", schema::string("e.g. python:3.12")},
           {"auth_username", schema::nullable(schema::string("For private registries"))},
           {"auth_password", schema::nullable(schema::string(""))},
           {"timeout_seconds", seconds_argument("Lifetime. 0: until it is killed", 600)},
           {"ready_timeout_seconds", seconds_argument("", 30)},
           {"health_check_polling_interval_ms", poll_argument()},
           {"skip_health_check", skip_argument()},
           {"env", schema::nullable(schema::string_map(""))},
           {"metadata", schema::nullable(schema::string_map("Labels for sandbox_list"))},
           {"resource", schema::nullable(schema::string_map("Limits: {\"cpu\": \"1\", \"memory\": \"2Gi\"}"))},
           {"network_policy", policy_argument()},
           {"extensions", schema::nullable(schema::string_map("Passed to the server"))},
           {"entrypoint", schema::nullable(schema::string_list(""))},
       }),
       .output = created_schema(),
       .run = sandbox_create,
       .ends_itself = true,
       .common = true},
      {.name = "sandbox_connect",
       .title = "Connect to a sandbox",
       .description = "Use a sandbox that was made elsewhere: afterwards the other tools take its id. It stays when "
                      "this connection ends.",
       .hints = {.idempotent = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"connect_timeout_seconds", seconds_argument("", 30)},
                                   {"health_check_polling_interval_ms", poll_argument()},
                                   {"skip_health_check", skip_argument()}}),
       .output = created_schema(),
       .run = sandbox_connect,
       .common = true},
      {.name = "sandbox_kill",
       .title = "Remove a sandbox",
       .description = "Remove a sandbox and everything in it.",
       .hints = {.destructive = true, .idempotent = true},
       .input = on_one,
       .output = status_schema(),
       .run = sandbox_kill,
       .common = true},
      {.name = "sandbox_get_info",
       .title = "Sandbox info",
       .description = "State, image, deadline (expires_at; absent: none) and metadata of a sandbox.",
       .hints = {.read_only = true},
       .input = on_one,
       .output = info_schema(),
       .run = sandbox_get_info,
       .common = true},
      {.name = "sandbox_list",
       .title = "List sandboxes",
       .description = "List sandboxes by state and metadata, page by page.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"filter", filter_argument()}}),
       .output = schema::object({{"sandbox_infos", schema::list_of(info_schema(), "")}, {"pagination", page_schema()}}),
       .run = sandbox_list,
       .common = true},
      {.name = "sandbox_renew",
       .title = "Renew a sandbox",
       .description = "Set the deadline of a sandbox to timeout_seconds from now. Returns expires_at.",
       .hints = {.idempotent = true},
       .input = schema::arguments({{"sandbox_id", id}, {"timeout_seconds", schema::at_least(schema::number(""), 1)}}),
       .output = schema::object({{"expires_at", schema::string("The new deadline.")}}),
       .run = sandbox_renew,
       .common = true},
      {.name = "sandbox_pause",
       .title = "Pause a sandbox",
       .description = "Freeze a sandbox. Its processes continue after sandbox_resume.",
       .input = on_one,
       .output = status_schema(),
       .run = sandbox_pause,
       .common = true},
      {.name = "sandbox_resume",
       .title = "Resume a sandbox",
       .description = "Resume a paused sandbox and wait until it answers.",
       .input = on_one,
       .output = status_schema(),
       .run = sandbox_resume,
       .common = true},
      {.name = "sandbox_patch_metadata",
       .title = "Change metadata",
       .description = "Set metadata of a sandbox. null removes a key; other keys stay. Returns the sandbox's info.",
       .hints = {.idempotent = true},
       .input = schema::arguments({{"sandbox_id", id}, {"metadata", metadata_patch_argument()}}),
       .output = info_schema(),
       .run = sandbox_patch_metadata},
      {.name = "sandbox_get_metrics",
       .title = "Sandbox metrics",
       .description = "CPU and memory use of a sandbox now.",
       .hints = {.read_only = true},
       .input = in_one,
       .output = schema::object({{"cpu_count", schema::number("")},
                                 {"cpu_used_percentage", schema::number("")},
                                 {"memory_total_in_mib", schema::number("")},
                                 {"memory_used_in_mib", schema::number("")},
                                 {"timestamp", schema::integer("Unix time in milliseconds.")}}),
       .run = sandbox_get_metrics,
       .common = true},
      {.name = "sandbox_healthcheck",
       .title = "Check a sandbox",
       .description = "Whether a sandbox answers. Returns healthy.",
       .hints = {.read_only = true},
       .input = in_one,
       .output = schema::object({{"sandbox_id", id}, {"healthy", schema::boolean("")}}),
       .run = sandbox_healthcheck,
       .common = true},
      {.name = "sandbox_get_endpoint",
       .title = "Endpoint of a port",
       .description = "Where a port of the sandbox is reached from outside. Returns endpoint (host:port/path without a "
                      "scheme) and the headers that requests need.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"port", schema::at_most(schema::at_least(schema::integer(""), 1), 65535)},
                                   {"connect_if_missing", connect}}),
       .output = schema::object({{"endpoint", schema::string("host[:port][/path], without a scheme.")},
                                 {"headers", schema::string_map("")}}),
       .run = sandbox_get_endpoint,
       .common = true},
  };
}

}  // namespace osb::mcp::tools
