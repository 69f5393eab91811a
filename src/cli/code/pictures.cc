#include "cli/code/pictures.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <utility>

#include "base/base64.h"
#include "base/concat.h"
#include "base/unique_fd.h"
#include "sys/write_all.h"

namespace osb::cli {
namespace {

struct Kind {
  std::string_view type, ending;
  bool text;  // not base64
};
constexpr Kind kKinds[] = {
    {"image/png", ".png", false}, {"image/jpeg", ".jpeg", false}, {"image/svg+xml", ".svg", true}};

}  // namespace

Expected<void> Pictures::make_directory() {
  if (!saved_.empty()) return {};
  if (directory_.empty()) {
    std::string name = (std::filesystem::temp_directory_path() / "osb-pictures-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return invalid(concat("Cannot make ", name, ": ", std::strerror(errno), "."));
    directory_ = name;
    return {};
  }
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) return invalid(concat("Cannot make ", directory_.string(), ": ", error.message(), "."));
  return {};
}

Expected<std::optional<std::filesystem::path>> Pictures::save(const opensandbox::StringMap& result) {
  for (const Kind& kind : kKinds) {
    const auto found = result.find(std::string(kind.type));
    if (found == result.end()) continue;
    const auto bytes = kind.text ? std::optional(found->second) : decode_base64(found->second);
    if (!bytes) continue;
    if (auto made = make_directory(); !made) return failed(made.error());
    // The sandbox says what the file holds, never where it is. An older file of this name is kept.
    for (std::size_t number = saved_.size() + 1;; ++number) {
      std::filesystem::path path = directory_ / concat("picture-", number, kind.ending);
      const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (!file && errno == EEXIST) continue;
      if (!file) return invalid(concat("Cannot write ", path.string(), ": ", std::strerror(errno), "."));
      if (auto written = sys::write_all(file.get(), *bytes, path.string()); !written) return failed(written.error());
      saved_.push_back(path);
      return path;
    }
  }
  return std::nullopt;
}

}  // namespace osb::cli
