#include "http/response_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <string_view>
#include <vector>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb::http {
namespace {

constexpr std::size_t kDateLine = std::string_view("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n").size();

// "Date: …\r\n", made anew once a second. By hand: strftime looks at the time zone first, in files.
std::string_view date_line() {
  thread_local std::time_t made_for = 0;
  thread_local std::array<char, kDateLine> line;
  timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != made_for) {
    const std::chrono::sys_seconds time{std::chrono::seconds(now.tv_sec)};
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    char* at = line.data();
    const auto put = [&at](std::string_view text) { at = std::ranges::copy(text, at).out; };
    const auto put_number = [&at](long value, int width) {
      for (int i = width; i-- > 0; value /= 10) at[i] = static_cast<char>('0' + value % 10);
      at += width;
    };
    put("Date: ");
    put(std::string_view("SunMonTueWedThuFriSat").substr(std::chrono::weekday(day).c_encoding() * 3, 3));
    put(", ");
    put_number(unsigned(date.day()), 2);
    put(" ");
    put(std::string_view("JanFebMarAprMayJunJulAugSepOctNovDec").substr(unsigned(date.month()) * 3 - 3, 3));
    put(" ");
    put_number(int(date.year()), 4);
    put(" ");
    put_number(clock.hours().count(), 2);
    put(":");
    put_number(clock.minutes().count(), 2);
    put(":");
    put_number(clock.seconds().count(), 2);
    put(" GMT\r\n");
    made_for = now.tv_sec;
  }
  return {line.data(), kDateLine};
}

void append_number(std::string& out, std::uint64_t value, int base = 10) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, base).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

bool clean(std::string_view value) {
  bool bad = false;
  for (const char c : value) bad |= c == '\r' || c == '\n' || c == '\0';  // no early end: a loop for vector units
  return !bad;
}

iovec piece_of(std::string_view bytes) { return {const_cast<char*>(bytes.data()), bytes.size()}; }

}  // namespace

void append_head(std::string& out, const Response& response, std::optional<std::uint64_t> length, bool chunked,
                 bool keep_alive, int minor_version) {
  out.reserve(256);
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(response.status));
  out += ' ';
  out += reason_phrase(response.status);
  out += "\r\n";
  bool has_date = false;
  for (const auto& [name, value] : response.headers) {
    if (!clean(name) || !clean(value)) continue;  // a handler must not be able to split a response
    out += name;
    out += ": ";
    out += value;
    out += "\r\n";
    if (!has_date && iequals(name, "Date")) has_date = true;
  }
  if (!has_date) out += date_line();
  if (length) {
    out += "Content-Length: ";
    append_number(out, *length);
    out += "\r\n";
  } else if (chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  if (!keep_alive) {
    out += "Connection: close\r\n";
  } else if (minor_version == 0) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
}

ResponseWriter::ResponseWriter(Connection& connection, const MessageBody& request_body, std::string head, Mode mode,
                               std::uint64_t length, std::chrono::milliseconds stall)
    : connection_(connection),
      request_body_(request_body),
      head_(std::move(head)),
      mode_(mode),
      left_(length),
      stall_(stall) {}

net::awaitable<Result<void>> ResponseWriter::send(std::span<iovec> pieces) {
  connection_.transport->set_timeout(stall_);
  auto sent = co_await connection_.transport->write_all(pieces);
  if (!sent) failure_ = sent.error();
  co_return sent;
}

net::awaitable<Result<void>> ResponseWriter::write(std::span<const std::string_view> pieces) {
  if (failure_) co_return Failure(*failure_);
  std::uint64_t total = 0;
  for (const std::string_view piece : pieces) total += piece.size();
  if (total == 0) co_return Result<void>();
  if (mode_ == Mode::Discard) co_return co_await flush();
  if (mode_ == Mode::Length && total > left_) {
    failure_ = Error(Code::Internal, "the body is longer than its Content-Length");
    co_return Failure(*failure_);
  }
  std::string chunk_line;
  if (mode_ == Mode::Chunked) {
    append_number(chunk_line, total, 16);
    chunk_line += "\r\n";
  }
  const std::string head = std::exchange(head_, {});
  std::array<iovec, 8> few;
  std::vector<iovec> many;
  std::span<iovec> out = few;
  if (pieces.size() + 3 > few.size()) {
    many.resize(pieces.size() + 3);
    out = many;
  }
  std::size_t n = 0;
  out[n++] = piece_of(head);
  out[n++] = piece_of(chunk_line);
  for (const std::string_view piece : pieces) out[n++] = piece_of(piece);
  if (mode_ == Mode::Chunked) out[n++] = piece_of("\r\n");
  left_ -= mode_ == Mode::Length ? total : 0;
  body_bytes_ += total;
  std::span<iovec> rest = out.first(n);
  if (connection_.transport->write_now(rest).kind == Transport::Io::Kind::Done) co_return Result<void>();
  co_return co_await send(rest);
}

net::awaitable<Result<void>> ResponseWriter::flush() {
  if (failure_) co_return Failure(*failure_);
  if (head_.empty()) co_return Result<void>();
  const std::string head = std::exchange(head_, {});
  iovec piece = piece_of(head);
  co_return co_await send(std::span(&piece, 1));
}

net::awaitable<Result<void>> ResponseWriter::finish() {
  if (failure_) co_return Failure(*failure_);
  if (mode_ == Mode::Length && left_ > 0) {
    failure_ = Error(Code::Internal, "the body is shorter than its Content-Length");
    co_return Failure(*failure_);
  }
  if (mode_ == Mode::Chunked) {
    const std::string head = std::exchange(head_, {});
    std::array<iovec, 2> out = {piece_of(head), piece_of("0\r\n\r\n")};
    co_return co_await send(out);
  }
  co_return co_await flush();
}

net::awaitable<void> ResponseWriter::peer_closed() {
  // Bytes that the client sends meanwhile (a pipelined request) are kept; only its end counts. A client that has filled
  // the buffer with requests cannot be watched any further, and is then noticed by the next write.
  while (request_body_.finished()) {
    auto got = co_await connection_.fill(ReadBuffer::kSmall);
    if (!got && got.error().code == Code::TooLarge) break;
    if (!got && got.error().code == Code::Timeout) {  // a deadline of the writing side; being silent is not leaving
      connection_.transport->set_deadline(std::nullopt);
      continue;
    }
    if (!got || *got == 0) co_return;
  }
  net::steady_timer never(co_await net::this_coro::executor, net::steady_timer::time_point::max());
  co_await never.async_wait(net::use_awaitable);
}

}  // namespace osb::http
