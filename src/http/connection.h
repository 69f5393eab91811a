#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "http/body.h"
#include "http/parser.h"
#include "http/read_buffer.h"
#include "http/transport.h"

namespace osb::http {

// One connection with what has been received and not used yet. Internal to the session and the client.
struct Connection {
  std::unique_ptr<Transport> transport;
  ReadBuffer in;

  // Receives at least one byte more; 0 at the end of the stream. TooLarge when `limit` bytes are waiting already.
  net::awaitable<Result<std::size_t>> fill(std::size_t limit);
  // One try without waiting, for callers that suspend by themselves (one coroutine less per request). Failed with
  // EMSGSIZE stands for TooLarge.
  Transport::Io fill_now(std::size_t limit);
  static Failure fill_failure(int error);
};

// The body of one message on a connection, on either side.
class MessageBody final : public BodySource {
 public:
  struct Options {
    std::optional<std::chrono::milliseconds> stall;  // longest time without a byte
    Code stall_code = Code::Timeout;                 // what a stall is to the reader
    bool send_continue = false;                      // answer 100 Continue before the first byte is awaited
  };
  MessageBody(std::shared_ptr<Connection> connection, Framing framing, Options options);

  net::awaitable<Result<std::string_view>> read() override;
  std::optional<std::string> take_whole(std::size_t limit) override;
  std::optional<std::uint64_t> length() const override;
  bool ready() const override;

  bool finished() const { return state_ == State::End; }
  bool untouched() const { return !touched_; }
  // True if the rest of the body is here already, or is short and announced by the peer.
  bool cheap_to_finish() const;

 private:
  enum class State { Reading, End, Broken };
  net::awaitable<Result<std::string_view>> read_length();
  // The next piece of a body with a length, if it is here already.
  std::optional<std::string_view> buffered_piece();
  net::awaitable<Result<std::string_view>> read_chunked();
  net::awaitable<Result<std::string_view>> read_until_close();
  net::awaitable<Result<std::size_t>> more();
  Failure broken(Error error);
  // The contents of the chunks that have arrived already.
  struct ArrivedChunks {
    bool data = false;
    bool end = false;
  };
  ArrivedChunks arrived_chunks() const;

  std::shared_ptr<Connection> connection_;
  Framing framing_;
  Options options_;
  std::uint64_t left_;
  ChunkDecoder chunks_;
  std::size_t lent_ = 0;  // bytes of the buffer that the last returned view covers
  State state_ = State::Reading;
  bool touched_ = false;
};

}  // namespace osb::http
