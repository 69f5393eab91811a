#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::http {

// A body being received: a request's on the server, a response's on the client. Bytes are pulled, so TCP stops the
// sender while the reader does not ask for more.
class BodySource {
 public:
  virtual ~BodySource() = default;

  // The next piece, as it arrived; empty at the end. The view lives until the next call. A peer that leaves in the
  // middle or sends broken framing is an error, never an early end.
  virtual net::awaitable<Result<std::string_view>> read() = 0;

  // The whole body at once, without a coroutine: where nothing of it was read yet, its length is known and at most
  // `limit`, and all of it is here, as small ones usually are. Nothing: call read().
  virtual std::optional<std::string> take_whole(std::size_t limit) {
    (void)limit;
    return std::nullopt;
  }

  // True if the next read() will not have to wait for the peer.
  virtual bool ready() const { return false; }

  // Content-Length, or nothing for a chunked or close-delimited body. 0 where there is no body.
  virtual std::optional<std::uint64_t> length() const = 0;

  // The whole body, or Code::TooLarge when it is longer than `limit`. The source must outlive the call.
  net::awaitable<Result<std::string>> read_all(std::size_t limit);
};

// A response body being sent. Every call sends at once and returns when the kernel has taken all bytes, which is what
// holds a producer back when the reader is slow. After an error further calls fail the same way.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;

  // Sends the pieces as one chunk, together with the head if that has not gone out yet. Empty input sends nothing.
  virtual net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) = 0;
  net::awaitable<Result<void>> write(std::string_view piece);

  // Sends the head if that has not gone out yet: for streams whose first byte may take long.
  virtual net::awaitable<Result<void>> flush() = 0;

  // Returns once the peer has closed its side or the connection broke; never returns as long as it stays. Cancel it
  // (async/race.h, cancellation slots) when no longer interested. At most one waiter at a time.
  virtual net::awaitable<void> peer_closed() = 0;
};

// A body produced while it is sent. `produce` is called exactly once, also when the head cannot be sent or the request
// was a HEAD (writes then go nowhere), so it may own work that has to be brought to an end. The session ends the
// chunked body after `produce` returned success. When it returns an error or throws, the connection is closed without
// the final chunk, so that the client sees a truncation; a stream with an in-band error form (events) must send that
// itself and return success.
struct StreamBody {
  std::move_only_function<net::awaitable<Result<void>>(BodyWriter&)> produce;
  // Known length: sent as Content-Length; producing another number of bytes is an error. Nothing: chunked.
  std::optional<std::uint64_t> length;
};

// `length` bytes of an open file from `offset`, sent with sendfile where the transport can.
struct FileBody {
  UniqueFd file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

}  // namespace osb::http
