#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The little of Redis's protocol (RESP2) that waiting on a list needs.
namespace osb::server::resp {

// A command as it goes out: an array of strings.
std::string encode(const std::vector<std::string>& words);

struct Reply {
  enum class Kind { Text, Error, Nothing, List };
  Kind kind = Kind::Nothing;
  std::string text;  // of Text and Error; a number as its digits
  std::vector<Reply> items;
};

// Reads one reply from the front of `bytes`, which it is taken off. Nothing: it is not there as a whole yet.
// Code::InvalidRequest: that is not Redis, or more than anybody puts into such a list.
Result<std::optional<Reply>> take_reply(std::string& bytes);

}  // namespace osb::server::resp
