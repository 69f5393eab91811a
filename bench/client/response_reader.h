#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace osb::bench {

// Reads HTTP/1.1 responses one after the other on a connection without pipelining. They have a length, are chunked, or
// are container engines' raw streams, which end with the connection. Other responses are thrown as errors.
class ResponseReader {
 public:
  // Takes what has arrived and hands pieces of the body to `on_body(std::string_view)`. True: the response is complete.
  template <typename OnBody>
  bool feed(std::string_view bytes, OnBody on_body) {
    while (!bytes.empty() && state_ != State::Done) {
      switch (state_) {
        case State::Head:
          if (take_line(bytes, "\r\n\r\n")) begin_body();
          break;
        case State::ChunkSize:
          if (take_line(bytes, "\r\n")) begin_chunk();
          break;
        case State::ChunkEnd:
        case State::Trailer:
          if (take_line(bytes, "\r\n")) state_ = state_ == State::ChunkEnd ? State::ChunkSize : State::Done;
          break;
        case State::Body:
        case State::Chunk: {
          const std::string_view piece = bytes.substr(0, left_);
          on_body(piece);
          bytes.remove_prefix(piece.size());
          left_ -= piece.size();
          if (left_ == 0) state_ = state_ == State::Body ? State::Done : State::ChunkEnd;
          break;
        }
        case State::Raw:
          on_body(bytes);
          bytes = {};
          break;
        case State::Done:
          break;
      }
      if (state_ != before_) line_.clear();
      before_ = state_;
    }
    if (!bytes.empty()) fail("bytes after the response");
    return state_ == State::Done;
  }

  int status() const { return status_; }
  // The peer says that it is over by closing.
  bool ends_with_connection() const { return state_ == State::Raw; }

  // For the next response.
  void reset() { *this = ResponseReader(); }

 private:
  enum class State { Head, Body, ChunkSize, Chunk, ChunkEnd, Trailer, Raw, Done };

  [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string("response: ") + what); }

  // Moves bytes to line_ until it ends with `end`. Lines are short: what follows them is left alone.
  bool take_line(std::string_view& bytes, std::string_view end) {
    while (!bytes.empty()) {
      line_ += bytes.front();
      bytes.remove_prefix(1);
      if (line_.ends_with(end)) return true;
    }
    return false;
  }

  void begin_body() {
    std::transform(line_.begin(), line_.end(), line_.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!line_.starts_with("http/1.1 ")) fail("no HTTP/1.1 status line");
    status_ = std::atoi(line_.c_str() + 9);
    constexpr std::string_view kLength = "\r\ncontent-length:";
    if (const auto at = line_.find(kLength); at != std::string::npos) {
      left_ = std::strtoull(line_.c_str() + at + kLength.size(), nullptr, 10);
      state_ = left_ > 0 ? State::Body : State::Done;
    } else if (status_ == 204 || status_ == 304) {
      state_ = State::Done;
    } else if (line_.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos) {
      state_ = State::ChunkSize;
    } else if (status_ == 101 || line_.find("-stream\r\n") != std::string::npos) {
      state_ = State::Raw;
    } else {
      fail("neither a length nor chunks");
    }
  }

  void begin_chunk() {
    left_ = std::strtoull(line_.c_str(), nullptr, 16);
    state_ = left_ > 0 ? State::Chunk : State::Trailer;
  }

  State state_ = State::Head;
  State before_ = State::Head;
  int status_ = 0;
  std::uint64_t left_ = 0;  // of the body or of the chunk
  std::string line_;        // what has come of the head, of a chunk's size, of a line end
};

}  // namespace osb::bench
