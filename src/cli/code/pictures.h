#pragma once

#include <filesystem>
#include <opensandbox/types.h>
#include <optional>
#include <string>
#include <vector>

#include "cli/problem.h"

namespace osb::cli {

// Saves the pictures among the results of code as files, picture-1.png, picture-2.svg and so on.
class Pictures {
 public:
  // "": a new directory for temporary files, made when the first picture comes.
  explicit Pictures(std::string directory) : directory_(std::move(directory)) {}

  // The file of the result's picture: PNG, JPEG or SVG, in this order. Nothing if it has none.
  Expected<std::optional<std::filesystem::path>> save(const opensandbox::StringMap& result);

  const std::vector<std::filesystem::path>& saved() const { return saved_; }

 private:
  Expected<void> make_directory();

  std::filesystem::path directory_;
  std::vector<std::filesystem::path> saved_;
};

}  // namespace osb::cli
