#include "http/parser.h"

#include <algorithm>
#include <array>
#include <optional>

namespace osb::http {
namespace {

using CharSet = std::array<bool, 256>;

constexpr CharSet char_set(auto member) {
  CharSet out{};
  for (std::size_t c = 0; c < out.size(); ++c) out[c] = member(static_cast<unsigned char>(c));
  return out;
}

// RFC 9110, 5.6.2: the characters of methods and field names.
constexpr CharSet kToken = char_set([](unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
});
// Of a request target: everything visible, and bytes beyond ASCII, which some clients do not escape.
constexpr CharSet kTarget = char_set([](unsigned char c) { return c > ' ' && c != 0x7f; });
// Of field values and reason phrases: the same and blanks; no other control characters.
constexpr CharSet kText = char_set([](unsigned char c) { return (c >= ' ' && c != 0x7f) || c == '\t'; });

bool consists_of(const CharSet& set, std::string_view text) {
  bool all = true;
  for (const char c : text) all &= set[static_cast<unsigned char>(c)];  // without a branch per character
  return all;
}

bool is_token(std::string_view text) { return !text.empty() && consists_of(kToken, text); }

Failure malformed(const char* what) {
  return fail(Code::InvalidRequest, std::string("malformed message head: ") + what);
}

// Takes the next line, without its CRLF, off `rest`; false if none ends there, or with a bare LF.
bool take_line(std::string_view& rest, std::string_view& line) {
  const std::size_t lf = rest.find('\n');
  if (lf == std::string_view::npos || lf == 0 || rest[lf - 1] != '\r') return false;
  line = rest.substr(0, lf - 1);
  rest.remove_prefix(lf + 1);
  return true;
}

// The minor version of HTTP/1.x.
Result<int> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") return 1;
  if (text == "HTTP/1.0") return 0;
  return fail(Code::Unsupported, "only HTTP/1.0 and HTTP/1.1 are spoken here");
}

Result<void> parse_request_line(std::string_view line, RequestHead& out) {
  const std::size_t method_end = line.find(' ');
  const std::string_view method = line.substr(0, method_end);
  if (!is_token(method) || method_end == std::string_view::npos) return malformed("no method");
  line.remove_prefix(method_end + 1);
  const std::size_t target_end = line.find(' ');
  const std::string_view target = line.substr(0, target_end);
  if (target.empty() || target_end == std::string_view::npos || !consists_of(kTarget, target)) {
    return malformed("no request target");
  }
  const auto version = parse_version(line.substr(target_end + 1));
  if (!version) return Failure(version.error());
  out.method = method;
  out.target = target;
  out.minor_version = *version;
  return {};
}

Result<void> parse_status_line(std::string_view line, ResponseHead& out) {
  const auto version = parse_version(line.substr(0, line.find(' ')));
  if (!version) return Failure(version.error());
  constexpr std::size_t kCode = std::string_view("HTTP/1.1 ").size();
  constexpr std::size_t kReason = kCode + 4;
  if (line.size() < kReason || line[kReason - 1] != ' ') return malformed("no status code");
  for (const char c : line.substr(kCode, 3)) {
    if (c < '0' || c > '9') return malformed("no status code");
    out.status = out.status * 10 + (c - '0');
  }
  if (!consists_of(kText, line.substr(kReason))) return malformed("a control character in the reason phrase");
  out.minor_version = *version;
  return {};
}

// The lines behind the first one, up to and including the empty one.
Result<void> parse_fields(std::string_view rest, Headers& out) {
  out.reserve(8);
  for (std::string_view line; take_line(rest, line);) {
    if (line.empty()) {
      if (!rest.empty()) break;
      return {};
    }
    if (line.front() == ' ' || line.front() == '\t') return malformed("folded lines are not accepted");
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (colon == std::string_view::npos || !is_token(name)) return malformed("a line without a field name");
    const std::string_view value = trim_ows(line.substr(colon + 1));
    if (!consists_of(kText, value)) return malformed("a control character in a field value");
    out.add(std::string(name), std::string(value));
  }
  return malformed("a line does not end in CRLF");
}

Result<Framing> framing_of(const Headers& headers, int minor_version) {
  const std::string* encoding = headers.find("Transfer-Encoding");
  const std::string* length = headers.find("Content-Length");
  if (encoding != nullptr) {
    if (length != nullptr) return fail(Code::InvalidRequest, "both Transfer-Encoding and Content-Length are given");
    if (headers.count("Transfer-Encoding") > 1 || minor_version < 1) {
      return fail(Code::InvalidRequest, "Transfer-Encoding is repeated or not allowed in HTTP/1.0");
    }
    if (!iequals(*encoding, "chunked")) {
      return fail(Code::Unsupported, "transfer coding '" + *encoding + "' is not supported, send chunked");
    }
    return Framing{Framing::Kind::Chunked, 0};
  }
  if (length == nullptr) return Framing{};
  if (headers.count("Content-Length") > 1) return fail(Code::InvalidRequest, "Content-Length is given more than once");
  // Digits only and no overflow: signs, spaces and lists are how lengths are made ambiguous.
  std::uint64_t value = 0;
  if (length->empty() || length->size() > 18) return fail(Code::InvalidRequest, "Content-Length is not a number");
  for (const char c : *length) {
    if (c < '0' || c > '9') return fail(Code::InvalidRequest, "Content-Length is not a number");
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return Framing{value == 0 ? Framing::Kind::None : Framing::Kind::Length, value};
}

// Whether the connection outlives the message. Nothing: a Connection field is not a list of tokens.
std::optional<bool> keeps_alive(const Headers& headers, int minor_version) {
  bool close = false;
  bool keep_alive = false;
  for (const auto& [name, value] : headers) {
    if (!iequals(name, "Connection")) continue;
    for (std::size_t at = 0; at <= value.size();) {
      const std::size_t end = std::min(value.find(',', at), value.size());
      const std::string_view item = trim_ows(std::string_view(value).substr(at, end - at));
      if (!item.empty() && !is_token(item)) return std::nullopt;
      close = close || iequals(item, "close");
      keep_alive = keep_alive || iequals(item, "keep-alive");
      at = end + 1;
    }
  }
  return minor_version >= 1 ? !close : keep_alive;
}

// The part behind the first line, which both kinds of heads have.
template <typename Head>
Result<void> parse_rest(std::string_view rest, Head& out) {
  if (auto parsed = parse_fields(rest, out.headers); !parsed) return parsed;
  const auto framing = framing_of(out.headers, out.minor_version);
  if (!framing) return Failure(framing.error());
  out.framing = *framing;
  const auto keep_alive = keeps_alive(out.headers, out.minor_version);
  if (!keep_alive) return malformed("Connection is not a list of tokens");
  out.keep_alive = *keep_alive;
  return {};
}

}  // namespace

std::size_t find_head_end(std::string_view bytes, std::size_t& searched) {
  // From LF to LF, of which a head has few: cheaper than a search for the four bytes.
  std::size_t at = searched > 3 ? searched - 3 : 0;
  searched = bytes.size();
  while ((at = bytes.find('\n', at)) != std::string_view::npos) {
    if (at > 0 && bytes.substr(at - 1, 4) == "\r\n\r\n") return at + 3;
    ++at;
  }
  return 0;
}

Result<RequestHead> parse_request_head(std::string_view head) {
  RequestHead out;
  std::string_view line;
  if (!take_line(head, line)) return malformed("the first line does not end in CRLF");
  if (auto parsed = parse_request_line(line, out); !parsed) return Failure(parsed.error());
  if (auto parsed = parse_rest(head, out); !parsed) return Failure(parsed.error());
  const std::size_t hosts = out.headers.count("Host");
  if (hosts > 1 || (hosts == 0 && out.minor_version >= 1)) {
    return fail(Code::InvalidRequest, "a request needs exactly one Host header");
  }
  if (!out.target.starts_with('/') && out.target != "*") {
    // Absolute form, as sent to proxies: its authority replaces Host (RFC 9112, 3.2.2), the rest is the origin form.
    const std::size_t scheme = out.target.find("://");
    if (scheme == std::string::npos) return fail(Code::InvalidRequest, "the request target must start with '/'");
    const std::size_t path = out.target.find_first_of("/?", scheme + 3);
    out.headers.set("Host", out.target.substr(scheme + 3, path == std::string::npos ? path : path - scheme - 3));
    std::string origin = path == std::string::npos ? "/" : out.target.substr(path);
    if (origin.front() == '?') origin.insert(0, "/");
    out.target = std::move(origin);
  }
  out.expect_continue = out.minor_version >= 1 && iequals(out.headers.get("Expect"), "100-continue");
  return out;
}

Result<ResponseHead> parse_response_head(std::string_view head, bool to_head) {
  ResponseHead out;
  std::string_view line;
  if (!take_line(head, line)) return malformed("the first line does not end in CRLF");
  if (auto parsed = parse_status_line(line, out); !parsed) return Failure(parsed.error());
  if (auto parsed = parse_rest(head, out); !parsed) return Failure(parsed.error());
  if (to_head || out.status / 100 == 1 || out.status == 204 || out.status == 304) {
    out.framing = {};
  } else if (out.framing.kind == Framing::Kind::None && !out.headers.contains("Content-Length")) {
    out.framing.kind = Framing::Kind::UntilClose;
    out.keep_alive = false;
  }
  return out;
}

Result<ChunkDecoder::Step> ChunkDecoder::step(std::string_view input) {
  constexpr std::size_t kMaxLine = 8 * 1024;
  constexpr std::size_t kMaxTrailers = 64 * 1024;
  Step out;
  if (state_ == State::Done) {
    out.done = true;
    return out;
  }
  if (state_ == State::Data) {
    out.data = input.substr(0, left_ < input.size() ? static_cast<std::size_t>(left_) : input.size());
    out.consumed = out.data.size();
    out.need_more = out.data.empty();
    left_ -= out.data.size();
    if (left_ == 0) state_ = State::DataEnd;
    return out;
  }
  // All other states take one CRLF-terminated line.
  const std::size_t lf = input.find('\n');
  if (lf == std::string_view::npos) {
    if (input.size() > kMaxLine) return fail(Code::InvalidRequest, "chunked body: line too long");
    out.need_more = true;
    return out;
  }
  if (lf == 0 || input[lf - 1] != '\r' || lf > kMaxLine)
    return fail(Code::InvalidRequest, "chunked body: bad line end");
  const std::string_view line = input.substr(0, lf - 1);
  out.consumed = lf + 1;
  switch (state_) {
    case State::Size: {
      std::uint64_t size = 0;
      std::size_t digits = 0;
      for (; digits < line.size(); ++digits) {
        const char c = line[digits];
        const int value = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (value < 0) break;
        size = size * 16 + static_cast<std::uint64_t>(value);
      }
      const std::string_view rest = line.substr(digits);
      const bool extension = rest.empty() || rest.front() == ';' || rest.front() == ' ' || rest.front() == '\t';
      if (digits == 0 || digits > 15 || !extension || rest.contains('\r')) {
        return fail(Code::InvalidRequest, "chunked body: bad chunk size");
      }
      left_ = size;
      state_ = size == 0 ? State::Trailer : State::Data;
      break;
    }
    case State::DataEnd:
      if (!line.empty()) return fail(Code::InvalidRequest, "chunked body: chunk longer than announced");
      state_ = State::Size;
      break;
    case State::Trailer:
      trailer_bytes_ += out.consumed;
      if (trailer_bytes_ > kMaxTrailers) return fail(Code::InvalidRequest, "chunked body: too many trailers");
      if (line.empty()) {
        state_ = State::Done;
        out.done = true;
      }
      break;
    case State::Data:
    case State::Done:
      break;
  }
  return out;
}

}  // namespace osb::http
