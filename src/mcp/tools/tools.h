#pragma once

#include <vector>

#include "mcp/call.h"
#include "mcp/tool.h"

// The tools, a file per area. Names and arguments of upstream's server are kept; our tools are additional.
namespace osb::mcp::tools {

std::vector<Tool> sandbox_tools();
std::vector<Tool> command_tools();
std::vector<Tool> session_tools();
std::vector<Tool> file_tools();
std::vector<Tool> file_list_tools();
std::vector<Tool> image_tools();
std::vector<Tool> snapshot_tools();
std::vector<Tool> egress_tools();
std::vector<Tool> credential_tools();
std::vector<Tool> code_tools();

// The sandbox that `sandbox_id` names, if this client has made it or connected to it; with `connect_if_missing` it is
// connected to now.
net::awaitable<std::expected<sdk::Sandbox, ToolError>> find_sandbox(Call& call);

// Makes a sandbox, registers it and answers as sandbox_create does. A call that is cancelled meanwhile removes it
// again.
net::awaitable<ToolResult> make_sandbox(Call& call, opensandbox::CreateOptions options);

// Arguments and results that several tools share.
json::object sandbox_id_argument();
json::object connect_argument();
json::object status_schema();
json::object info_schema();
json::object created_schema();
json::object status_result(std::string_view status);
// Of a running sandbox plain results say no more about its state than that.
json::object encode_info(const Call& call, const opensandbox::SandboxInfo& info);
json::object encode_status(const opensandbox::Status& status);
json::object encode_page(const opensandbox::Page& page);
json::value or_null(const std::string& text);
// Adds reason ("OUT_OF_MEMORY", "TIMEOUT", "INTERRUPTED") and reason_message of a failed run; nothing if unknown.
void add_reason(json::object& out, const std::string& reason, const std::string& message);
json::value or_null(const std::optional<opensandbox::Timestamp>& time);
std::chrono::milliseconds seconds(double value);

// For features that the server or the sandbox does not offer: a failure in a form that programs recognise,
// {"available": false, "code": "NOT_AVAILABLE", "message": ..}. Other errors stay what they are.
ToolFailure unless_offered(const opensandbox::Error& error, std::string_view feature);

}  // namespace osb::mcp::tools
