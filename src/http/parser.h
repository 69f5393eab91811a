#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/headers.h"

namespace osb::http {

// How the body of a message is delimited.
struct Framing {
  enum class Kind { None, Length, Chunked, UntilClose };
  Kind kind = Kind::None;
  std::uint64_t length = 0;  // Length
};

struct RequestHead {
  std::string method;
  std::string target;
  int minor_version = 1;
  Headers headers;
  Framing framing;
  bool keep_alive = true;
  bool expect_continue = false;
};

struct ResponseHead {
  int status = 0;
  int minor_version = 1;
  Headers headers;
  Framing framing;
  bool keep_alive = true;
};

// Number of bytes up to and including the empty line, or 0 when it has not arrived yet. `searched` (start with 0) keeps
// the place, so that a head that arrives byte by byte is not searched again from its start.
std::size_t find_head_end(std::string_view bytes, std::size_t& searched);

// A complete head. Stricter than HTTP allows where leniency helps smugglers: folded lines, bare CR or LF, several
// lengths, a length next to an encoding, encodings other than chunked, a missing or repeated Host are errors
// (InvalidRequest; Unsupported for an unknown transfer coding or version).
Result<RequestHead> parse_request_head(std::string_view head);
// `to_head`: the request was a HEAD, so there is no body, even if the headers announce one.
Result<ResponseHead> parse_response_head(std::string_view head, bool to_head);

// Takes chunked framing apart, piece by piece.
class ChunkDecoder {
 public:
  struct Step {
    std::size_t consumed = 0;  // bytes of the input that are used up, `data` included
    std::string_view data;     // body bytes, a view into the input; empty: none in this step
    bool done = false;         // the final chunk and the trailers have been read
    bool need_more = false;    // nothing can be done before more bytes arrive
  };
  // Trailers are read and dropped. Lines longer than 8 KiB, or more than 64 KiB of trailers, are errors.
  Result<Step> step(std::string_view input);

 private:
  enum class State { Size, Data, DataEnd, Trailer, Done } state_ = State::Size;
  std::uint64_t left_ = 0;
  std::size_t trailer_bytes_ = 0;
};

}  // namespace osb::http
