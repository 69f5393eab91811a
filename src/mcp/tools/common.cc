#include <cmath>

#include "mcp/schema.h"
#include "mcp/tools/tools.h"

namespace osb::mcp::tools {

net::awaitable<std::expected<sdk::Sandbox, ToolError>> find_sandbox(Call& call) {
  const std::string id = call.text("sandbox_id");
  if (auto known = call.sandboxes().find(id)) co_return std::move(*known);
  if (!call.flag("connect_if_missing")) {
    co_return tool_failure("SANDBOX_NOT_CONNECTED",
                           "Sandbox not found in local registry. Call sandbox_connect or set connect_if_missing=true.");
  }
  auto connected = co_await sdk::Sandbox::connect(call.sandboxes().client(), id);
  if (!connected) co_return tool_failure(connected.error());
  call.sandboxes().add(*connected, false);
  co_return std::move(*connected);
}

json::object sandbox_id_argument() { return schema::string(""); }

json::object connect_argument() {
  return schema::with_default(schema::boolean(""), false);  // the server's instructions explain it
}

json::object status_schema() { return schema::object({{"status", schema::string("The action that was done.")}}); }

json::object status_result(std::string_view status) { return {{"status", status}}; }

json::object info_schema() {
  const json::object text = schema::string("");
  return schema::object({
      {"id", schema::string("Sandbox identifier.")},
      {"status", schema::object({{"state", schema::string("Pending, Running, Pausing, Paused, Resuming, Stopping, "
                                                          "Terminated or Failed.")},
                                 {"reason", schema::nullable(text)},
                                 {"message", schema::nullable(text)},
                                 {"last_transition_at", schema::nullable(text)}})},
      {"entrypoint", schema::string_list("")},
      {"expires_at", schema::nullable(schema::string("When it ends by itself; null: never."))},
      {"created_at", text},
      {"image",
       schema::nullable(schema::object(
           {{"image", text}, {"auth", schema::nullable(schema::object({{"username", text}, {"password", text}}))}}))},
      {"snapshot_id", schema::nullable(text)},
      {"platform", schema::nullable(schema::object({{"os", text}, {"arch", text}}))},
      {"metadata", schema::nullable(schema::string_map(""))},
  });
}

json::object created_schema() {
  return schema::object({{"sandbox_id", sandbox_id_argument()}, {"info", info_schema()}});
}

void add_reason(json::object& out, const std::string& reason, const std::string& message) {
  if (!reason.empty()) out["reason"] = reason;
  if (!message.empty()) out["reason_message"] = message;
}

json::value or_null(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

json::value or_null(const std::optional<opensandbox::Timestamp>& time) {
  return time ? json::value(opensandbox::format_timestamp(*time)) : json::value(nullptr);
}

json::object encode_status(const opensandbox::Status& status) {
  return {{"state", status.state},
          {"reason", or_null(status.reason)},
          {"message", or_null(status.message)},
          {"last_transition_at", or_null(status.last_transition_at)}};
}

json::object encode_info(const Call& call, const opensandbox::SandboxInfo& info) {
  json::object out{{"id", info.id}, {"status", encode_status(info.status)}};
  const bool running = info.status.state == opensandbox::state::kRunning;
  if (running && !call.published()) out["status"] = json::object{{"state", info.status.state}};
  json::array entrypoint;
  for (const std::string& word : info.entrypoint) entrypoint.emplace_back(word);
  out["entrypoint"] = std::move(entrypoint);
  out["expires_at"] = or_null(info.expires_at);
  out["created_at"] = opensandbox::format_timestamp(info.created_at);
  // A registry password that a server echoes never gets here.
  out["image"] = nullptr;
  if (!info.image.empty()) out["image"] = json::object{{"image", info.image}, {"auth", nullptr}};
  out["snapshot_id"] = or_null(info.snapshot_id);
  out["platform"] = nullptr;
  if (info.platform) out["platform"] = json::object{{"os", info.platform->os}, {"arch", info.platform->arch}};
  out["metadata"] = nullptr;
  if (info.metadata) {
    json::object metadata;
    for (const auto& [key, value] : *info.metadata) metadata[key] = value;
    out["metadata"] = std::move(metadata);
  }
  return out;
}

json::object encode_page(const opensandbox::Page& page) {
  return {{"page", page.page},
          {"page_size", page.page_size},
          {"total_items", page.total_items},
          {"total_pages", page.total_pages},
          {"has_next_page", page.has_next_page}};
}

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(value * 1000)));
}

ToolFailure unless_offered(const opensandbox::Error& error, std::string_view feature) {
  const bool nobody_there = error.kind == opensandbox::ErrorKind::Network;
  const bool not_served = error.status == 405 || (error.status >= 501 && error.status <= 504) ||
                          (error.status == 404 && !error.code.starts_with("SANDBOX"));
  ToolFailure out = tool_failure(error);
  if (!nobody_there && !not_served) return out;
  std::string message(feature);
  message.append(" is not available in this sandbox: ").append(error.message);
  out.error().message = message;
  out.error().code = "NOT_AVAILABLE";
  out.error().structured = json::object{{"available", false}, {"code", "NOT_AVAILABLE"}, {"message", message}};
  return out;
}

}  // namespace osb::mcp::tools
