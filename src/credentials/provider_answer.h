#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "vault/secret.h"

// Errors repeat nothing of an answer but an OAuth error code: the rest may be secret.
namespace osb::credentials {

inline constexpr std::size_t kMostBytes = 64 << 10;  // of an answer, and of a value

// The value that a file or the output of a command holds: without one line end at its end. Refused: empty, longer than
// kMostBytes, control characters.
Result<vault::SecretText> parse_value(std::string_view text);

// {"data":{"data":{FIELD: value}}}, the answer of a KV v2 store.
Result<vault::SecretText> parse_kv2_answer(std::string_view body, std::string_view field);

struct Token {
  vault::SecretText value;
  std::optional<std::chrono::seconds> lifetime = {};
};
// The answer of a token endpoint (RFC 6749, section 5.1). Only bearer tokens.
Result<Token> parse_token_answer(std::string_view body);

// The `error` of a refusal (section 5.2), if it is one word of a code; else "".
std::string token_error(std::string_view body);

}  // namespace osb::credentials
