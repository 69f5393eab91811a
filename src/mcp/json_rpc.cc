#include "mcp/json_rpc.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "api/json.h"

namespace osb::mcp {
namespace {

constexpr std::size_t kMaxIdBytes = 1024;  // it is echoed, and kept while the request runs

bool is_id(const json::value& id) {
  if (const json::string* text = id.if_string()) return text->size() <= kMaxIdBytes;
  return id.is_number();
}

Malformed invalid(json::value id, std::string why) {
  return {std::move(id), {rpc::kInvalidRequest, std::move(why), nullptr}};
}

Decoded decode_message(json::value& value) {
  json::object* object = value.if_object();
  if (object == nullptr) return invalid(nullptr, "a message is a JSON object");
  Message out;
  const json::value* id = object->if_contains("id");
  if (id != nullptr && is_id(*id)) out.id = *id;
  const json::value* version = object->if_contains("jsonrpc");
  if (version == nullptr || *version != "2.0") return invalid(out.id, "/jsonrpc: expected \"2.0\"");
  const json::value* method = object->if_contains("method");
  if (method == nullptr) {
    if (!object->contains("result") && !object->contains("error")) return invalid(out.id, "/method: is missing");
    // An answer without a request of ours; its id may be null when it reports an unreadable request.
    out.kind = Message::Kind::Response;
    return out;
  }
  if (!method->is_string()) return invalid(out.id, "/method: expected a string");
  out.method = method->get_string();
  if (id == nullptr) {
    out.kind = Message::Kind::Notification;
  } else if (out.id.is_null()) {
    return invalid(nullptr, "/id: expected a string or a number");
  }
  if (json::value* params = object->if_contains("params"); params != nullptr && !params->is_null()) {
    if (!params->is_object()) {
      return Malformed{out.id, {rpc::kInvalidParams, "/params: expected an object", nullptr}};
    }
    out.params = std::move(params->get_object());
  }
  return out;
}

void append_scalar(std::string& out, const json::value& value) {
  const double* number = value.if_double();
  if (number == nullptr || !std::isfinite(*number) || std::abs(*number) >= 1e15) {
    out += json::serialize(value);
  } else {
    out += fmt::format("{}", *number);
  }
}

// `depth` -1: on one line.
void append_text(std::string& out, const json::value& value, int depth) {
  const bool indent = depth >= 0;
  const int inside = indent ? depth + 1 : -1;
  const auto line = [&](int level) {
    if (indent) out.append("\n").append(static_cast<std::size_t>(level) * 2, ' ');
  };
  if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : *object) {
      if (!std::exchange(first, false)) out += ',';
      line(inside);
      out.append(json::serialize(json::value(key))).append(indent ? ": " : ":");
      append_text(out, member, inside);
    }
    line(depth);
    out += '}';
  } else if (const json::array* array = value.if_array(); array != nullptr && !array->empty()) {
    out += '[';
    bool first = true;
    for (const json::value& item : *array) {
      if (!std::exchange(first, false)) out += ',';
      line(inside);
      append_text(out, item, inside);
    }
    line(depth);
    out += ']';
  } else {
    append_scalar(out, value);
  }
}

}  // namespace

Payload decode_payload(std::string_view text) {
  Payload out;
  auto value = api::parse_json(text);
  if (!value) {
    out.messages.emplace_back(Malformed{nullptr, {rpc::kParseError, value.error().message, nullptr}});
    return out;
  }
  json::array* batch = value->if_array();
  if (batch == nullptr) {
    out.messages.push_back(decode_message(*value));
    return out;
  }
  out.batch = true;
  if (batch->empty()) out.messages.emplace_back(invalid(nullptr, "a batch holds at least one message"));
  for (json::value& item : *batch) out.messages.push_back(decode_message(item));
  return out;
}

std::size_t answers_wanted(const Payload& payload) {
  const auto wants = [](const Decoded& each) {
    const Message* message = std::get_if<Message>(&each);
    return message == nullptr || message->kind == Message::Kind::Request;
  };
  return static_cast<std::size_t>(std::ranges::count_if(payload.messages, wants));
}

std::string encode_result(const json::value& id, json::object result) {
  json::object out{{"jsonrpc", "2.0"}, {"id", id}};
  out["result"] = std::move(result);
  return json::serialize(out);
}

std::string encode_error(const json::value& id, const RpcError& error) {
  json::object inner{{"code", error.code}, {"message", error.message}};
  if (!error.data.is_null()) inner["data"] = error.data;
  return json::serialize(json::object{{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(inner)}});
}

std::string encode_notification(std::string_view method, json::object params) {
  json::object out{{"jsonrpc", "2.0"}, {"method", method}};
  out["params"] = std::move(params);
  return json::serialize(out);
}

std::string compact(const json::value& value) {
  std::string out;
  append_text(out, value, -1);
  return out;
}

std::string pretty(const json::value& value) {
  std::string out;
  append_text(out, value, 0);
  return out;
}

}  // namespace osb::mcp
