#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb {

// Messages over a Unix stream socket between two processes of ours, each with at most one descriptor.
//
// A frame is a 32-bit length in little endian, then so many bytes. The highest bit of the length says that a descriptor
// comes with it (SCM_RIGHTS on its first byte): the kernel may hand out bytes of earlier frames together with it.
//
// All calls happen on the loop's thread. One reader at a time. Destroying the object ends the read with
// Code::Cancelled.
class FrameSocket {
 public:
  struct Frame {
    std::string body;
    UniqueFd descriptor;  // may be empty
  };
  static constexpr std::size_t kMaxFrame = 4 << 20;
  static constexpr std::size_t kMaxQueued = 256 << 20;

  // Takes the socket.
  static Result<FrameSocket> open(net::any_io_executor executor, UniqueFd socket);
  ~FrameSocket();
  FrameSocket(FrameSocket&&) noexcept;
  FrameSocket& operator=(FrameSocket&&) noexcept;

  // The next frame; nothing at the end of the stream. After an error the stream cannot be read any more.
  net::awaitable<Result<std::optional<Frame>>> read();

  // Sends at once what the kernel takes and keeps the rest until there is room, in order. Fails when the peer has gone,
  // the frame is longer than kMaxFrame, or the peer does not read and more than kMaxQueued bytes wait.
  Result<void> send(std::string_view body, UniqueFd descriptor = UniqueFd());

  // Ends reads and writes in both directions.
  void close();

 private:
  struct State;
  explicit FrameSocket(std::shared_ptr<State> state);
  static net::awaitable<Result<std::optional<Frame>>> read_on(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace osb
