#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace osb::http {

// Decodes %XX; '+' stays a plus (paths). Nothing for a broken escape or an embedded NUL.
std::optional<std::string> percent_decode(std::string_view text);
// Encodes everything but unreserved characters (RFC 3986) and those in `keep`.
std::string percent_encode(std::string_view text, std::string_view keep = "");

// A query string as key/value pairs in order; '+' means space; repeated keys stay. A broken escape is kept literally,
// as browsers do. An encoded NUL is decoded too: a caller that passes a value to the kernel has to check for it.
class Query {
 public:
  static Query parse(std::string_view query);

  const std::string* find(std::string_view key) const;  // first value, or nullptr
  std::string_view get(std::string_view key) const;     // first value, or empty
  std::vector<std::string> all(std::string_view key) const;
  auto begin() const { return pairs_.begin(); }
  auto end() const { return pairs_.end(); }

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

// "http://host:port/path", "https://…", "unix:/run/x.sock" or "unix:///run/x.sock" (then `host` is the socket's path).
// A fragment is dropped; user and password are refused, and never repeated in the error.
struct Url {
  std::string scheme;
  std::string host;  // without brackets for IPv6
  std::uint16_t port = 0;
  std::string target = "/";  // path and query, as written
  static Result<Url> parse(std::string_view text);
};

}  // namespace osb::http
