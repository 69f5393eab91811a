#include "credentials/provider_answer.h"

#include <algorithm>

#include "api/json.h"
#include "base/text.h"
#include "http/headers.h"
#include "vault/wiping_resource.h"

namespace osb::credentials {
namespace {

namespace json = api::json;

constexpr std::int64_t kLongestLifetime = std::int64_t{366} * 24 * 3600;

Failure wrong(std::string_view why) { return fail(Code::Unavailable, std::string(why)); }

// Calls `read` with the object that the body is. The memory of the JSON value is overwritten afterwards.
template <typename T, typename F>
Result<T> with_object(std::string_view body, F read) {
  if (body.size() > kMostBytes) return wrong("the answer is longer than 64 KiB");
  vault::WipingResource memory;
  const auto value = api::parse_json(body, {.max_depth = 16, .storage = json::storage_ptr(&memory)});
  if (!value || !value->is_object()) return wrong("the answer is no JSON object");
  return read(value->get_object());
}

const json::object* object_in(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(key);
  return found == nullptr ? nullptr : found->if_object();
}

std::string_view text_in(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(key);
  const json::string* text = found == nullptr ? nullptr : found->if_string();
  return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
}

}  // namespace

Result<vault::SecretText> parse_value(std::string_view text) {
  if (text.size() > kMostBytes) return wrong("the value is longer than 64 KiB");
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) return wrong("the value is empty");
  if (has_control_byte(text)) return wrong("the value has control characters");
  return vault::SecretText(text);
}

Result<vault::SecretText> parse_kv2_answer(std::string_view body, std::string_view field) {
  return with_object<vault::SecretText>(body, [&](const json::object& answer) -> Result<vault::SecretText> {
    const json::object* outer = object_in(answer, "data");
    const json::object* data = outer == nullptr ? nullptr : object_in(*outer, "data");
    if (data == nullptr) return wrong("the answer has no data: the path has no secret, or the store is not KV v2");
    const std::string_view value = text_in(*data, field);
    if (value.empty()) return wrong("the secret has no text in the field \"" + std::string(field) + "\"");
    return parse_value(value);
  });
}

Result<Token> parse_token_answer(std::string_view body) {
  return with_object<Token>(body, [&](const json::object& answer) -> Result<Token> {
    if (!http::iequals(text_in(answer, "token_type"), "bearer")) return wrong("the token is no bearer token");
    auto value = parse_value(text_in(answer, "access_token"));
    if (!value) return wrong("access_token: " + value.error().message);
    Token out{std::move(*value)};
    const json::value* lifetime = answer.if_contains("expires_in");
    if (lifetime == nullptr || lifetime->is_null()) return out;
    const std::int64_t* seconds = lifetime->if_int64();
    if (seconds == nullptr || *seconds <= 0) return wrong("expires_in is no positive integer");
    out.lifetime = std::chrono::seconds(std::min(*seconds, kLongestLifetime));
    return out;
  });
}

std::string token_error(std::string_view body) {
  const auto code = with_object<std::string>(body, [](const json::object& answer) -> Result<std::string> {
    const std::string_view error = text_in(answer, "error");
    const bool good =
        error.size() <= 40 && std::ranges::all_of(error, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
    return std::string(good ? error : "");
  });
  return code.value_or("");
}

}  // namespace osb::credentials
