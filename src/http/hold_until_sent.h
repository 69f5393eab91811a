#pragma once

#include <utility>

#include "http/message.h"

namespace osb::http {

// Keeps `held` until the client has the whole answer, or has left: a stream until it ends, an upgraded connection until
// it is closed. The answer that is text is as good as sent.
template <typename Held>
void hold_until_sent(Response& response, Held held) {
  if (auto* stream = std::get_if<StreamBody>(&response.body)) {
    stream->produce = [inner = std::move(stream->produce),
                       held = std::move(held)](BodyWriter& to) mutable -> net::awaitable<Result<void>> {
      // The function itself may live until the connection's next request.
      const Held until_the_end = std::move(held);
      co_return co_await inner(to);
    };
  } else if (auto* upgrade = std::get_if<UpgradeHandler>(&response.body)) {
    *upgrade = [inner = std::move(*upgrade), held = std::move(held)](
                   Transport& transport, std::string buffered) mutable -> net::awaitable<void> {
      const Held until_the_end = std::move(held);
      co_await inner(transport, std::move(buffered));
    };
  }
}

}  // namespace osb::http
