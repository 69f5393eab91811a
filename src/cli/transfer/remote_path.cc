#include "cli/transfer/remote_path.h"

namespace osb::cli {

std::optional<RemotePath> parse_remote_path(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view id = text.substr(0, colon);
  if (id.find('/') != std::string_view::npos || id.starts_with('.')) return std::nullopt;
  return RemotePath{std::string(id), std::string(text.substr(colon + 1))};
}

std::string last_part(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return name == "." || name == ".." ? std::string() : std::string(name);
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.ends_with('/')) out += '/';
  return out += name;
}

}  // namespace osb::cli
