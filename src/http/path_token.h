#pragma once

#include <optional>
#include <string>
#include <string_view>

// A secret in the path of a URL, "/access-token/<secret>/command": for clients that take a base URL but cannot send a
// header of their own. Why it is made like this: docs/design/0004-token-in-the-path.md.
namespace osb::http {

inline constexpr std::string_view kPathTokenPrefix = "/access-token/";

// Whether a secret can stand in a path as it is, so that its bytes are compared and never decoded: letters, digits,
// '-' and '_' only.
bool fits_path(std::string_view secret);

// "/access-token/<secret>", to put behind a host or in front of a path.
std::string path_of_token(std::string_view secret);

// Takes "/access-token/<secret>" off the front of a request's target, with any secret. Only that very spelling at the
// very front counts, bytes as they came: no decoding, no empty or dotted segments, no second one behind it. Nothing:
// the target does not begin so, and stays as it is.
std::optional<std::string> take_path_token(std::string& target);

// A path as logs may show it: the segment behind "access-token" is "***", also in spellings that open nothing, such as
// "//access-token/<secret>" or "/%61ccess-token%2F<secret>": a misspelt secret is a secret too.
std::string loggable_path(std::string_view path);

}  // namespace osb::http
