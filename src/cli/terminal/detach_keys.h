#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::cli {

// The keys that leave a terminal without ending what runs in it. Written as Docker writes them: "ctrl-p,ctrl-q" by
// default, single characters or ctrl- with a letter or one of @ [ \ ] ^ _, separated by commas.
class DetachKeys {
 public:
  static Result<DetachKeys> parse(std::string_view text);  // "" or "none": no keys

  // Takes what was typed and appends what is for the other side to `out`. The beginning of the sequence is held back
  // until it is clear that it is none. True: the sequence is complete, and keys typed behind it are dropped.
  bool feed(std::string_view typed, std::string& out);

 private:
  std::string keys_;
  std::size_t matched_ = 0;
};

}  // namespace osb::cli
