#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::controller {

// The value of an alloc-... annotation: {"pods":["a","b"],"poolRef":"p"}. Older controllers write no poolRef.
struct PodList {
  std::vector<std::string> pods;  // in the order of replicas
  std::string pool;

  bool contains(std::string_view pod) const;
  std::string to_json() const;
  // An empty text is an empty list. An error says what is wrong with the text.
  static Result<PodList> parse(std::string_view text);
};

// `list` without the pods of `without`, in its order.
std::vector<std::string> pods_without(const std::vector<std::string>& list, const std::vector<std::string>& without);

}  // namespace osb::controller
