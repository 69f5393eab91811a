#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::execd {

// Variables by name: the daemon's, or those of one command.
using Environment = std::map<std::string, std::string, std::less<>>;

// Turns a path of a request into an absolute, clean one: a leading "~" or "~/" becomes $HOME, "$NAME" and "${NAME}" are
// replaced from `env`, a relative path starts at `cwd`, and ".", ".." and repeated slashes are removed by text, without
// looking at the file system (so "link/.." is the directory that holds the link). A '$' that starts no name stays.
// Bytes are kept as they are: a name need not be UTF-8.
//
// Fails (Code::InvalidRequest) for an empty path, a variable that is not defined, a NUL byte, and a result that no
// system call would take (PATH_MAX).
Result<std::string> expand_path(std::string_view path, const Environment& env, std::string_view cwd);

// The cleaning step alone; `path` is absolute.
std::string clean_path(std::string_view path);

// "/a/b" -> "/a" and "b"; "/a" -> "/" and "a". `path` is clean.
std::string_view parent_of(std::string_view path);
std::string_view base_name(std::string_view path);

}  // namespace osb::execd
