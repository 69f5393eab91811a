#include "http/range.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/concat.h"
#include "http/url.h"

namespace osb::http {

namespace {

// Decimal digits only; a number too large for the type counts as its maximum.
std::optional<std::uint64_t> parse_position(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    value = value > (kMax - digit) / 10 ? kMax : value * 10 + digit;
  }
  return value;
}

RangeRequest parse_one_range(std::string_view text, std::uint64_t size) {
  using Kind = RangeRequest::Kind;
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return {Kind::Malformed};
  const std::string_view first_text = trim_ows(text.substr(0, dash));
  const std::string_view last_text = trim_ows(text.substr(dash + 1));
  if (first_text.empty()) {
    const auto suffix = parse_position(last_text);
    if (!suffix) return {Kind::Malformed};
    const std::uint64_t length = std::min(*suffix, size);
    if (length == 0) return {Kind::Unsatisfiable};
    return {Kind::Part, size - length, length};
  }
  const auto first = parse_position(first_text);
  if (!first) return {Kind::Malformed};
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  if (!last_text.empty()) {
    const auto given = parse_position(last_text);
    if (!given || *given < *first) return {Kind::Malformed};
    last = *given;
  }
  if (*first >= size) return {Kind::Unsatisfiable};
  return {Kind::Part, *first, std::min(last, size - 1) - *first + 1};
}

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Takes a date apart from left to right; after the first thing that does not fit, ok() is false.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  void text(std::string_view expected) {
    if (!rest_.starts_with(expected)) return give_up();
    rest_.remove_prefix(expected.size());
  }
  bool try_text(std::string_view wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  int digits(std::size_t count) {
    if (rest_.size() < count) return give_up(), 0;
    const auto value = parse_position(rest_.substr(0, count));
    if (!value) return give_up(), 0;
    rest_.remove_prefix(count);
    return static_cast<int>(*value);
  }
  unsigned month() {
    for (unsigned i = 0; i < kMonths.size(); ++i) {
      if (try_text(kMonths[i])) return i + 1;
    }
    return give_up(), 0;
  }
  // The day's full name if that is there, else its first three letters.
  void weekday() {
    for (const std::string_view day : kDays) {
      if (try_text(day) || try_text(day.substr(0, 3))) return;
    }
    give_up();
  }
  bool ok() const { return ok_ && rest_.empty(); }

 private:
  void give_up() { ok_ = false; }

  std::string_view rest_;
  bool ok_ = true;
};

std::string_view without_weakness(std::string_view etag) { return etag.starts_with("W/") ? etag.substr(2) : etag; }

bool same_tag(std::string_view a, std::string_view b, TagComparison comparison) {
  if (comparison == TagComparison::Strong) return a == b && !a.starts_with("W/");
  return without_weakness(a) == without_weakness(b);
}

}  // namespace

RangeRequest parse_range(std::string_view field, std::uint64_t size) {
  using Kind = RangeRequest::Kind;
  field = trim_ows(field);
  if (field.empty()) return {};
  const auto equals = field.find('=');
  if (equals == std::string_view::npos || !iequals(trim_ows(field.substr(0, equals)), "bytes"))
    return {Kind::Malformed};
  std::optional<RangeRequest> first;
  for (std::string_view rest = field.substr(equals + 1);;) {
    const auto comma = rest.find(',');
    const std::string_view one = trim_ows(rest.substr(0, comma));
    if (!one.empty()) {  // RFC 9110 lets lists have empty elements
      const RangeRequest range = parse_one_range(one, size);
      if (range.kind == Kind::Malformed) return range;
      if (!first) first = range;
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return first.value_or(RangeRequest{Kind::Malformed});
}

std::string content_range(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
  return concat("bytes ", offset, '-', offset + length - 1, '/', size);
}

std::string unsatisfied_content_range(std::uint64_t size) { return concat("bytes */", size); }

std::string format_http_date(HttpTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const auto two = [](auto value) { return zero_padded(static_cast<std::uint64_t>(value), 2); };
  return concat(kDays[std::chrono::weekday(day).c_encoding()].substr(0, 3), ", ",
                two(static_cast<unsigned>(date.day())), ' ', kMonths[static_cast<unsigned>(date.month()) - 1], ' ',
                zero_padded(static_cast<std::uint64_t>(static_cast<int>(date.year())), 4), ' ',
                two(clock.hours().count()), ':', two(clock.minutes().count()), ':', two(clock.seconds().count()),
                " GMT");
}

std::optional<HttpTime> parse_http_date(std::string_view text) {
  DateReader in(trim_ows(text));
  int year = 0, day = 0, hour = 0, minute = 0, second = 0;
  unsigned month = 0;
  const auto clock = [&] {
    hour = in.digits(2);
    in.text(":");
    minute = in.digits(2);
    in.text(":");
    second = in.digits(2);
  };
  in.weekday();
  if (in.try_text(", ")) {
    day = in.digits(2);
    if (in.try_text("-")) {  // RFC 850
      month = in.month();
      in.text("-");
      year = in.digits(2);
      year += year < 70 ? 2000 : 1900;
    } else {
      in.text(" ");
      month = in.month();
      in.text(" ");
      year = in.digits(4);
    }
    in.text(" ");
    clock();
    in.text(" GMT");
  } else {  // asctime
    in.text(" ");
    month = in.month();
    in.text(" ");
    day = in.try_text(" ") ? in.digits(1) : in.digits(2);
    in.text(" ");
    clock();
    in.text(" ");
    year = in.digits(4);
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!in.ok() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return HttpTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

bool etag_matches(std::string_view list, std::string_view etag, TagComparison comparison) {
  list = trim_ows(list);
  if (list == "*") return true;
  if (etag.empty()) return false;
  while (!list.empty()) {
    if (list.front() == ',' || list.front() == ' ' || list.front() == '\t') {
      list.remove_prefix(1);
      continue;
    }
    // A tag may contain commas, so it is read up to its closing quote.
    const std::size_t open = list.starts_with("W/") ? 2 : 0;
    if (list.size() <= open || list[open] != '"') return false;
    const std::size_t close = list.find('"', open + 1);
    if (close == std::string_view::npos) return false;
    if (same_tag(list.substr(0, close + 1), etag, comparison)) return true;
    list.remove_prefix(close + 1);
  }
  return false;
}

Precondition evaluate_preconditions(std::string_view method, const Headers& headers, const Validators& validators) {
  // A date that does not parse counts as absent.
  const auto date_of = [&](std::string_view name) -> std::optional<HttpTime> {
    const std::string* field = validators.last_modified ? headers.find(name) : nullptr;
    return field ? parse_http_date(*field) : std::nullopt;
  };
  const bool reads = method == "GET" || method == "HEAD";

  if (const std::string* tags = headers.find("If-Match")) {
    if (!etag_matches(*tags, validators.etag, TagComparison::Strong)) return Precondition::Failed;
  } else if (const auto date = date_of("If-Unmodified-Since"); date && *validators.last_modified > *date) {
    return Precondition::Failed;
  }
  if (const std::string* tags = headers.find("If-None-Match")) {
    if (etag_matches(*tags, validators.etag, TagComparison::Weak)) {
      return reads ? Precondition::NotModified : Precondition::Failed;
    }
  } else if (const auto date = date_of("If-Modified-Since"); reads && date && *validators.last_modified <= *date) {
    return Precondition::NotModified;
  }
  return Precondition::Proceed;
}

bool range_applies(const Headers& headers, const Validators& validators) {
  const std::string* field = headers.find("If-Range");
  if (!field) return true;
  const std::string_view value = trim_ows(*field);
  if (value.ends_with('"')) {
    return !validators.etag.empty() && same_tag(value, validators.etag, TagComparison::Strong);
  }
  const auto date = parse_http_date(value);
  return date && validators.last_modified == date;
}

std::string attachment_disposition(std::string_view name) {
  const bool plain = std::ranges::all_of(name, [](char c) { return c >= ' ' && c < 0x7f; });
  if (!plain) {
    const std::string encoded = percent_encode(name);
    return concat("attachment; filename=\"", encoded, "\"; filename*=UTF-8''", encoded);
  }
  std::string out = "attachment; filename=\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace osb::http
