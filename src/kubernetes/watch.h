#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "http/client.h"
#include "kubernetes/object.h"

namespace osb::kubernetes {

struct WatchEvent {
  // Bookmark: nothing has changed up to the version of `object`, which has no other fields.
  enum class Type { Added, Modified, Deleted, Bookmark } type = Type::Added;
  ObjectPtr object;
};

// Bytes of a watch, cut anywhere, into events. Without I/O, so that it can be tested and fuzzed alone.
class WatchDecoder {
 public:
  void add(std::string_view bytes);
  // The next event; nothing: more bytes are needed. Failures: the server's ERROR event as its error (see is_expired),
  // or Code::Internal for bytes that are no events. Unknown types of events are skipped.
  Result<std::optional<WatchEvent>> next();

 private:
  std::string rest_;
  std::size_t at_ = 0;
  std::size_t searched_ = 0;
};

// A watch that has begun. Dropping it ends it.
class Watch {
 public:
  explicit Watch(http::ClientResponse response) : response_(std::move(response)) {}

  // The next event; nothing: the server has ended the watch, which it does every few minutes. A new one goes on from
  // the version of the last event.
  net::awaitable<Result<std::optional<WatchEvent>>> next();

 private:
  http::ClientResponse response_;
  WatchDecoder decoder_;
};

}  // namespace osb::kubernetes
