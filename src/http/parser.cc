#include "http/parser.h"

#include <cstring>

#include <boost/beast/http/basic_parser.hpp>

namespace osb::http {
namespace {

namespace bhttp = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastView = boost::beast::string_view;

std::string copy(BeastView v) { return std::string(v.data(), v.size()); }

// Beast checks the grammar of the head; the body is ours, so those callbacks are never reached.
template <bool IsRequest>
class HeadParser final : public bhttp::basic_parser<IsRequest> {
 public:
  HeadParser() {
    this->header_limit(1 << 30);  // the caller has bounded the bytes
    this->body_limit(boost::none);
    headers.reserve(8);
  }
  std::string method;
  std::string target;
  int status = 0;
  int version = 11;
  Headers headers;

 private:
  void on_request_impl(bhttp::verb, BeastView m, BeastView t, int v, BeastError&) override {
    method = copy(m);
    target = copy(t);
    version = v;
  }
  void on_response_impl(int s, BeastView, int v, BeastError&) override {
    status = s;
    version = v;
  }
  void on_field_impl(bhttp::field, BeastView name, BeastView value, BeastError&) override {
    headers.add(copy(name), copy(value));
  }
  void on_header_impl(BeastError&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, BeastError&) override {}
  std::size_t on_body_impl(BeastView body, BeastError&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastView, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, BeastError&) override { return body.size(); }
  void on_finish_impl(BeastError&) override {}
};

// Every LF is the end of a CRLF, no other CR is there, no line starts with white space (obs-fold).
Result<void> check_lines(std::string_view head) {
  const char* p = head.data();
  const char* const end = p + head.size();
  for (;;) {
    const auto* lf = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
    if (lf == nullptr) break;
    if (lf == head.data() || lf[-1] != '\r') return fail(Code::InvalidRequest, "a header line does not end in CRLF");
    if (std::memchr(p, '\r', static_cast<std::size_t>(lf - p - 1)) != nullptr) {
      return fail(Code::InvalidRequest, "a header line contains a bare CR");
    }
    if (lf + 1 < end && (lf[1] == ' ' || lf[1] == '\t')) {
      return fail(Code::InvalidRequest, "folded header lines are not accepted");
    }
    p = lf + 1;
  }
  return {};
}

Result<Framing> framing_of(const Headers& headers, int version) {
  const std::string* encoding = headers.find("Transfer-Encoding");
  const std::string* length = headers.find("Content-Length");
  if (encoding != nullptr) {
    if (length != nullptr) return fail(Code::InvalidRequest, "both Transfer-Encoding and Content-Length are given");
    if (headers.count("Transfer-Encoding") > 1 || version < 11) {
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

bool keeps_alive(const Headers& headers, int version) {
  const bool has = headers.contains("Connection");
  if (version >= 11) return !has || !headers.has_token("Connection", "close");
  return has && headers.has_token("Connection", "keep-alive");
}

Error beast_error(const BeastError& ec) {
  if (ec == bhttp::error::bad_version) return {Code::Unsupported, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {Code::InvalidRequest, "malformed message head: " + ec.message()};
}

template <bool IsRequest>
Result<void> run(HeadParser<IsRequest>& parser, std::string_view head) {
  if (auto checked = check_lines(head); !checked) return checked;
  BeastError ec;
  parser.put(boost::asio::buffer(head.data(), head.size()), ec);
  if (ec) return Failure(beast_error(ec));
  if (!parser.is_header_done()) return fail(Code::InvalidRequest, "malformed message head");
  return {};
}

}  // namespace

std::size_t find_head_end(std::string_view bytes, std::size_t& searched) {
  if (bytes.empty()) return 0;  // an empty buffer has no address, which memmem does not take
  const std::size_t from = searched > 3 ? searched - 3 : 0;
  const void* hit = ::memmem(bytes.data() + from, bytes.size() - from, "\r\n\r\n", 4);
  searched = bytes.size();
  return hit == nullptr ? 0 : static_cast<std::size_t>(static_cast<const char*>(hit) - bytes.data()) + 4;
}

Result<RequestHead> parse_request_head(std::string_view head) {
  HeadParser<true> parser;
  if (auto parsed = run(parser, head); !parsed) return Failure(parsed.error());
  RequestHead out;
  out.method = std::move(parser.method);
  out.target = std::move(parser.target);
  out.minor_version = parser.version - 10;
  out.headers = std::move(parser.headers);
  auto framing = framing_of(out.headers, parser.version);
  if (!framing) return Failure(framing.error());
  out.framing = *framing;
  const std::size_t hosts = out.headers.count("Host");
  if (hosts > 1 || (hosts == 0 && out.minor_version >= 1)) {
    return fail(Code::InvalidRequest, "a request needs exactly one Host header");
  }
  if (!out.target.starts_with('/') && out.target != "*") {
    // Absolute form, as sent to proxies: the authority is dropped, what remains is the origin form.
    const std::size_t scheme = out.target.find("://");
    if (scheme == std::string::npos) return fail(Code::InvalidRequest, "the request target must start with '/'");
    const std::size_t path = out.target.find_first_of("/?", scheme + 3);
    std::string origin = path == std::string::npos ? "/" : out.target.substr(path);
    if (origin.front() == '?') origin.insert(0, "/");
    out.target = std::move(origin);
  }
  out.keep_alive = keeps_alive(out.headers, parser.version);
  out.expect_continue = out.minor_version >= 1 && iequals(out.headers.get("Expect"), "100-continue");
  return out;
}

Result<ResponseHead> parse_response_head(std::string_view head, bool to_head) {
  HeadParser<false> parser;
  if (auto parsed = run(parser, head); !parsed) return Failure(parsed.error());
  ResponseHead out;
  out.status = parser.status;
  out.minor_version = parser.version - 10;
  out.headers = std::move(parser.headers);
  out.keep_alive = keeps_alive(out.headers, parser.version);
  if (to_head || out.status / 100 == 1 || out.status == 204 || out.status == 304) return out;
  auto framing = framing_of(out.headers, parser.version);
  if (!framing) return Failure(framing.error());
  out.framing = *framing;
  if (out.framing.kind == Framing::Kind::None && !out.headers.contains("Content-Length")) {
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
