#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osb::cli {

// "ID:PATH" on the command line.
struct RemotePath {
  std::string sandbox;
  std::string path;
};

// Nothing for what is a local path: no colon, or a slash or dot before it ("./a:b" is local, as with scp).
std::optional<RemotePath> parse_remote_path(std::string_view text);

// The last part of a path: "b" of "/a/b" and "/a/b/"; empty for "/", ".", ".." and what ends in one of those.
std::string last_part(std::string_view path);
// "/a" and "b" give "/a/b".
std::string join_path(std::string_view directory, std::string_view name);

}  // namespace osb::cli
