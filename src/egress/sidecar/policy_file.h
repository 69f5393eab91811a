#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "policy/policy.h"

namespace osb::egress {

// The policy as it was changed last, on disk. An empty path: it is not kept.
class PolicyFile {
 public:
  explicit PolicyFile(std::string path) : path_(std::move(path)) {}

  // Nothing: there is no file, or it is blank.
  Result<std::optional<policy::Policy>> load() const;
  // See keep_text().
  Result<void> save(const policy::Policy& policy) const;

 private:
  std::string path_;
};

// sys::replace_file(): a new file has mode 0600, an old one keeps its mode. Blocks.
Result<void> keep_text(const std::string& path, std::string_view text);

// Two blanks for each level, and a newline at the end.
std::string pretty(const policy::Policy& policy);

}  // namespace osb::egress
