#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Redis's protocol (RESP2): commands and replies as bytes.
namespace osb::redis {

// A command as it goes out: an array of strings.
std::string encode(const std::vector<std::string>& words);

struct Reply {
  enum class Kind { Nothing, Text, Number, Error, List };
  Kind kind = Kind::Nothing;
  std::string text;  // of Text and Error
  std::int64_t number = 0;
  std::vector<Reply> items;
};

// A longer reply is refused: no command here has one.
struct Limits {
  std::int64_t text_bytes = 1 << 20;
  std::int64_t items = 1024;
  int depth = 4;
};

// Reads one reply from the front of `bytes`, which it is taken off. Nothing: it is not there as a whole yet.
// Code::InvalidRequest: that is not Redis, or more than the limits allow.
Result<std::optional<Reply>> take_reply(std::string& bytes, const Limits& limits = {});

}  // namespace osb::redis
