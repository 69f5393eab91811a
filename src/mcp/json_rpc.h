#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace osb::mcp {

namespace json = boost::json;

// JSON-RPC 2.0 as MCP uses it, without any I/O.

namespace rpc {
inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;
inline constexpr int kBusy = -32000;              // ours: too many requests at the same time
inline constexpr int kResourceNotFound = -32002;  // MCP's
}  // namespace rpc

struct RpcError {
  int code = rpc::kInternalError;
  std::string message;
  json::value data = nullptr;  // sent unless it is null
};

struct Message {
  enum class Kind { Request, Notification, Response } kind = Kind::Request;
  json::value id = nullptr;  // a string or a number; null for a notification
  std::string method;        // empty for a response
  json::object params;       // empty when absent. The result or error of a response is dropped: we ask nothing.
};

// Input that is no valid message, and the answer to it. The id is null if none could be read.
struct Malformed {
  json::value id = nullptr;
  RpcError error;
};

using Decoded = std::variant<Message, Malformed>;

struct Payload {
  bool batch = false;             // an array; MCP 2025-03-26 has them, later versions do not
  std::vector<Decoded> messages;  // never empty
};

// Takes any bytes: an error becomes a Malformed, never an exception. Nesting is limited to 64 levels.
Payload decode_payload(std::string_view text);

// How many answers it asks for: one per request and per malformed message.
std::size_t answers_wanted(const Payload& payload);

// One line each, without an end of line.
std::string encode_result(const json::value& id, json::object result);
std::string encode_error(const json::value& id, const RpcError& error);
std::string encode_notification(std::string_view method, json::object params);

// As people and models read it, numbers without exponents: on one line, or indented by two blanks.
std::string compact(const json::value& value);
std::string pretty(const json::value& value);

}  // namespace osb::mcp
