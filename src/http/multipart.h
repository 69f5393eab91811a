#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "http/body.h"
#include "http/headers.h"

namespace osb::http {

// The boundary of "multipart/form-data; boundary=..", quoted or not. Code::InvalidRequest says what is wrong with it.
Result<std::string> boundary_of(std::string_view content_type);

// The head of one part. Nothing in it is required: callers check for a name themselves.
struct PartHead {
  std::string name;
  std::optional<std::string> filename;  // filename*, decoded to UTF-8, wins over filename; untrusted, may be a path
  std::string content_type;             // empty: not given
  Headers headers;
};

struct MultipartLimits {
  std::size_t head_bytes = std::size_t{16} << 10;     // of one part
  std::size_t head_fields = 32;                       // of one part
  std::size_t outside_bytes = std::size_t{64} << 10;  // before the first and after the last part
  std::size_t parts = 10'000;
};

// The parser itself, without I/O: give it a piece of any size with feed(), call next() until it says NeedInput, repeat;
// then finish(). Data comes out as views into the piece where it lies (or into the parser, for bytes at the end of a
// piece that looked like a boundary), so nothing is copied and at most a few bytes are held back.
class MultipartParser {
 public:
  enum class Event {
    NeedInput,
    PartBegin,  // head() is valid until the next PartBegin
    Data,       // data() is valid until the next call; never empty
    PartEnd,
    End,     // the closing boundary; the bytes behind it are ignored
    Failed,  // error(); stays
  };

  // `boundary` as boundary_of() returns it.
  explicit MultipartParser(std::string_view boundary, MultipartLimits limits = {});

  // Only after NeedInput (or at the start). The piece stays valid until the next feed().
  void feed(std::string_view piece) { input_ = piece; }
  Event next();
  // At the end of the body: an error if the closing boundary has not come, because then the upload was cut off.
  Result<void> finish() const;

  const PartHead& head() const { return head_; }
  std::string_view data() const { return data_; }
  const Error& error() const { return error_; }

 private:
  enum class State { Scan, AfterBoundary, AfterDash, BoundaryLine, Head, Closing, Epilogue, Failed };

  // One step of the machine; nothing: go on with the next.
  std::optional<Event> step();
  std::optional<Event> scan();
  std::optional<Event> after_boundary();
  std::optional<Event> after_dash();
  std::optional<Event> boundary_line();
  std::optional<Event> read_head();
  std::optional<Event> epilogue();
  std::optional<Event> emit(std::string_view bytes);
  std::optional<Event> not_a_boundary(std::size_t matched);
  Event parse_head();
  Event fail(std::string message);
  // Position of the first whole delimiter in `text`, or npos.
  std::size_t find_delimiter(std::string_view text) const;

  std::string delimiter_;  // CR LF - - boundary, and one more '-' that is not counted in delimiter_size_
  std::size_t delimiter_size_;
  std::array<std::uint8_t, 256> skip_;  // Boyer-Moore-Horspool; 0 for the delimiter's last character
  std::uint8_t skip_after_last_;
  MultipartLimits limits_;

  State state_ = State::Scan;
  bool in_part_ = false;  // Scan goes through a part's data, or through the preamble
  std::string_view input_;
  std::string_view data_;
  // How much of the delimiter the last piece ended with. CR appears in it once, at its start, so that when it does not
  // go on, all of that is data and cannot be the start of another one.
  std::size_t held_ = 2;
  // The line break counted in held_ is not data: it ended the part's head, or there is none at the start of the body.
  bool line_start_ = true;
  std::size_t outside_ = 0;
  std::size_t parts_ = 0;
  std::string head_text_;
  std::size_t line_begin_ = 0;  // in head_text_
  std::size_t head_fields_ = 0;
  PartHead head_;
  Error error_;
};

// The same over a request body, for handlers that await between the pieces:
//   while (true) {
//     auto part = co_await reader.next_part();   // nullptr: no more parts
//     auto piece = co_await reader.read();       // empty: end of the part
//   }
// Errors of the body are passed on; broken multipart is Code::InvalidRequest.
class MultipartReader {
 public:
  // The body outlives the reader.
  MultipartReader(BodySource& body, std::string_view boundary, MultipartLimits limits = {})
      : body_(body), parser_(boundary, limits) {}

  // Skips what is left of the current part. After the last part the body has been read to its end.
  net::awaitable<Result<const PartHead*>> next_part();
  net::awaitable<Result<std::string_view>> read();
  // The rest of the current part, or Code::TooLarge.
  net::awaitable<Result<std::string>> read_all(std::size_t limit);

 private:
  // The next event; NeedInput: the body has ended, and rightly so.
  net::awaitable<Result<MultipartParser::Event>> advance();

  BodySource& body_;
  MultipartParser parser_;
  bool in_part_ = false;
  bool ended_ = false;
};

}  // namespace osb::http
