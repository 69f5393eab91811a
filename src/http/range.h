#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/headers.h"

namespace osb::http {

// The request of a Range field. Of several ranges only the first is served.
struct RangeRequest {
  enum class Kind {
    Whole,          // no Range field
    Part,           // 206: `offset` and `length`, which is at least 1
    Unsatisfiable,  // 416: starts behind the end
    Malformed,      // 416 too: clients must not take a whole file for the part they asked for
  } kind = Kind::Whole;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// `field` is the value of Range, empty if absent. "bytes=a-b", "a-" and "-n", ends clamped to `size`.
RangeRequest parse_range(std::string_view field, std::uint64_t size);
// Content-Range of a 206 and of a 416.
std::string content_range(std::uint64_t offset, std::uint64_t length, std::uint64_t size);
std::string unsatisfied_content_range(std::uint64_t size);

using HttpTime = std::chrono::sys_seconds;
// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string format_http_date(HttpTime time);
// That form, RFC 850's and asctime's. Two-digit years from 70 on are in the twentieth century.
std::optional<HttpTime> parse_http_date(std::string_view text);

// True if a comma-separated list of entity tags, or "*", contains `etag` (quotes and W/ included). Weak comparison
// ignores W/; strong comparison never matches a weak tag. "*" matches any `etag`, even an empty one.
enum class TagComparison { Weak, Strong };
bool etag_matches(std::string_view list, std::string_view etag, TagComparison comparison);

// The version of the resource that a request names.
struct Validators {
  std::string etag;  // with its quotes; empty: none
  std::optional<HttpTime> last_modified;
};

enum class Precondition { Proceed, NotModified /* 304 */, Failed /* 412 */ };
// If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC 9110 13.2.2.
Precondition evaluate_preconditions(std::string_view method, const Headers& headers, const Validators& validators);
// Whether Range is to be looked at: true without If-Range, or if it still names the present state.
bool range_applies(const Headers& headers, const Validators& validators);

// attachment; filename="name", percent-encoded with a filename* beside it when `name` is not printable ASCII.
std::string attachment_disposition(std::string_view name);

}  // namespace osb::http
