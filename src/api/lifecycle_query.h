#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

// Input of lifecycle requests beside a body: query and path parameters, and the Prefer header. Parameters come as
// decoded pairs in order; of a repeated parameter that is not a list the last one counts.
namespace osb::api {

using QueryPairs = std::span<const std::pair<std::string, std::string>>;

// An integer in a query or path ("query/page", "path/port"); 422 when it is none or out of range.
Result<std::int64_t> parse_int_parameter(std::string_view where, std::string_view text, std::int64_t min,
                                         std::int64_t max);
Result<bool> parse_bool_parameter(std::string_view where, std::string_view text);

struct Paging {
  std::int64_t page = 1;
  std::int64_t page_size = 20;  // 1 to 200
};

struct SandboxQuery {
  std::vector<std::string> states = {};              // in lower case; empty: all
  std::map<std::string, std::string> metadata = {};  // all must match
  std::optional<std::string> match = {};             // the beginning of the id, or the metadata "name"
  Paging paging = {};
};
// GET /sandboxes. A metadata filter that is no list of pairs is 400 INVALID_METADATA_FORMAT.
Result<SandboxQuery> decode_sandbox_query(QueryPairs query);

struct SnapshotQuery {
  std::optional<std::string> sandbox_id = {};
  std::optional<std::string> name = {};
  std::optional<std::string> match = {};  // the beginning of the id, or the name
  std::vector<std::string> states = {};   // exact; empty: all. One that does not exist matches nothing.
  Paging paging = {};
};
Result<SnapshotQuery> decode_snapshot_query(QueryPairs query);

struct PageInfo {
  std::int64_t page = 1;
  std::int64_t page_size = 20;
  std::int64_t total_items = 0;

  std::int64_t total_pages() const;
  bool has_next() const;
};
std::string encode_page_info(const PageInfo& info);

// How long an answer may be held back: ?wait=N, else "Prefer: wait=N", else "Prefer: respond-async", which is 0; more
// than 300 s counts as 300. The query wins, and only it can be wrong (422): a preference that cannot be read is
// ignored, as RFC 7240 wants.
struct Wait {
  std::chrono::seconds limit{0};
  bool asked = false;        // false: the route has its own default
  std::string applied = {};  // for Preference-Applied; "" is none
};
Result<Wait> decode_wait(QueryPairs query, std::string_view prefer);

// Idempotency-Key: 1 to 255 bytes without control characters, else 422.
Result<void> check_idempotency_key(std::string_view key);

}  // namespace osb::api
