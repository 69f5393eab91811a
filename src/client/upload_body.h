#pragma once

#include <opensandbox/async.h>
#include <optional>
#include <string>
#include <string_view>

#include "client/wire.h"
#include "http/body.h"

namespace opensandbox {

// A request body around a source of the caller: a head, the source's bytes, a tail.
class UploadBody final : public osb::http::BodySource {
 public:
  // `length`: the number of bytes of the source. Another number is an error, because the request has announced it.
  UploadBody(std::string head, async::ByteSource source, std::string tail, std::optional<std::uint64_t> length)
      : head_(std::move(head)), source_(std::move(source)), tail_(std::move(tail)), length_(length) {}

  net::awaitable<osb::Result<std::string_view>> read() override;
  std::optional<std::uint64_t> length() const override {
    if (!length_) return std::nullopt;
    return head_.size() + *length_ + tail_.size();
  }

  std::uint64_t sent() const { return sent_; }                    // of the source
  const std::optional<Error>& failed() const { return failed_; }  // what the source said
  bool waiting() const { return waiting_; }                       // for the source
  std::uint64_t steps() const { return steps_; }                  // changes with every piece

 private:
  enum class At { Head, Source, Tail, End };

  std::string head_;
  async::ByteSource source_;
  std::string tail_;
  std::optional<std::uint64_t> length_;
  At at_ = At::Head;
  std::uint64_t sent_ = 0;
  std::uint64_t steps_ = 0;
  bool waiting_ = false;
  std::optional<Error> failed_;
};

// Sends it. There is no limit to how long that takes, but one to how long the other side may take nothing. An error of
// the source is what is returned.
async::Task<Reply> send_upload(ClientState state, Peer peer, Call call, std::shared_ptr<UploadBody> body);

}  // namespace opensandbox
