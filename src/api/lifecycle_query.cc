#include "api/lifecycle_query.h"

#include <algorithm>
#include <charconv>

#include "api/json.h"
#include "api/lifecycle_error.h"
#include "base/json_escape.h"
#include "base/text.h"

namespace osb::api {
namespace {

constexpr std::int64_t kMaxPageSize = 200;
constexpr std::int64_t kMaxWait = 300;
constexpr std::string_view kRespondAsync = "respond-async";

std::string_view trim(std::string_view text) { return trimmed(text, " \t"); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// '+' and %XX; a broken escape stays as it is.
std::string form_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

Result<std::map<std::string, std::string>> parse_metadata_filter(std::string_view text) {
  std::map<std::string, std::string> out;
  if (text.empty()) return out;
  for (;;) {
    const std::string_view segment = text.substr(0, text.find('&'));
    const auto equals = segment.find('=');
    if (equals == std::string_view::npos) {
      return refuse(Code::InvalidRequest, reason::kInvalidMetadataFormat,
                    "query/metadata: " + in_quotes(segment) + " has no '='; expected key=value&key2=value2");
    }
    out.insert_or_assign(form_decode(segment.substr(0, equals)), form_decode(segment.substr(equals + 1)));
    if (segment.size() == text.size()) return out;
    text.remove_prefix(segment.size() + 1);
  }
}

Result<void> read_paging(std::string_view key, std::string_view value, Paging& paging) {
  if (key == "page") {
    const auto page = parse_int_parameter("query/page", value, 1, std::numeric_limits<std::int32_t>::max());
    if (!page) return Failure(page.error());
    paging.page = *page;
  } else if (key == "pageSize") {
    const auto size = parse_int_parameter("query/pageSize", value, 1, kMaxPageSize);
    if (!size) return Failure(size.error());
    paging.page_size = *size;
  }
  return {};
}

// wait=N among the preferences of RFC 7240, else respond-async; nothing when they are absent or cannot be read.
std::optional<Wait> preferred_wait(std::string_view prefer) {
  std::optional<Wait> out;
  while (!prefer.empty()) {
    std::string_view item = prefer.substr(0, prefer.find(','));
    prefer.remove_prefix(std::min(prefer.size(), item.size() + 1));
    item = trim(item.substr(0, item.find(';')));
    if (equals_ignoring_case(item, kRespondAsync)) out = Wait{{}, true, std::string(kRespondAsync)};
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || !equals_ignoring_case(trim(item.substr(0, equals)), "wait")) continue;
    std::string_view value = trim(item.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    const auto wait = parse_int_parameter("", value, 0, std::numeric_limits<std::int64_t>::max());
    if (!wait) return out;
    const std::int64_t limit = std::min(*wait, kMaxWait);
    return Wait{std::chrono::seconds(limit), true, "wait=" + std::to_string(limit)};
  }
  return out;
}

}  // namespace

Result<std::int64_t> parse_int_parameter(std::string_view where, std::string_view text, std::int64_t min,
                                         std::int64_t max) {
  std::string_view digits = trim(text);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = end == digits.data() + digits.size() && !digits.empty();
  if (!whole || (error != std::errc() && error != std::errc::result_out_of_range)) {
    return unprocessable(where, "expected an integer");
  }
  if (error != std::errc() || number < min || number > max) {
    return unprocessable(where, "expected an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return number;
}

Result<bool> parse_bool_parameter(std::string_view where, std::string_view text) {
  const auto flag = parse_lax_bool(trim(text));
  if (!flag) return unprocessable(where, "expected true or false");
  return *flag;
}

Result<SandboxQuery> decode_sandbox_query(QueryPairs query) {
  SandboxQuery out;
  for (const auto& [key, value] : query) {
    if (key == "state") {
      out.states.push_back(lower(value));
    } else if (key == "metadata") {
      auto filter = parse_metadata_filter(value);
      if (!filter) return Failure(filter.error());
      out.metadata = std::move(*filter);
    } else if (key == "match") {
      out.match = value;
    } else if (auto ok = read_paging(key, value, out.paging); !ok) {
      return Failure(ok.error());
    }
  }
  return out;
}

Result<SnapshotQuery> decode_snapshot_query(QueryPairs query) {
  SnapshotQuery out;
  for (const auto& [key, value] : query) {
    if (key == "state") {
      out.states.push_back(value);
    } else if (key == "sandboxId") {
      out.sandbox_id = value;
    } else if (key == "name") {
      out.name = value;
    } else if (key == "match") {
      out.match = value;
    } else if (auto ok = read_paging(key, value, out.paging); !ok) {
      return Failure(ok.error());
    }
  }
  return out;
}

std::int64_t PageInfo::total_pages() const { return (total_items + page_size - 1) / page_size; }
bool PageInfo::has_next() const { return page < total_pages(); }

std::string encode_page_info(const PageInfo& info) {
  return R"({"page":)" + std::to_string(info.page) + R"(,"pageSize":)" + std::to_string(info.page_size) +
         R"(,"totalItems":)" + std::to_string(info.total_items) + R"(,"totalPages":)" +
         std::to_string(info.total_pages()) + R"(,"hasNextPage":)" + (info.has_next() ? "true}" : "false}");
}

Result<Wait> decode_wait(QueryPairs query, std::string_view prefer) {
  const std::string* asked = nullptr;
  for (const auto& [key, value] : query) {
    if (key == "wait") asked = &value;
  }
  if (asked == nullptr) return preferred_wait(prefer).value_or(Wait());
  const auto wait = parse_int_parameter("query/wait", *asked, 0, std::numeric_limits<std::int64_t>::max());
  if (!wait) return Failure(wait.error());
  return Wait{std::chrono::seconds(std::min(*wait, kMaxWait)), true, ""};
}

Result<void> check_idempotency_key(std::string_view key) {
  const bool printable =
      std::ranges::none_of(key, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
  if (key.empty() || key.size() > 255 || !printable) {
    return unprocessable("header/Idempotency-Key", "expected 1 to 255 characters, none of them a control character");
  }
  return {};
}

}  // namespace osb::api
