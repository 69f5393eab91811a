#include "client/upload_body.h"

#include "async/race.h"
#include "async/timer.h"
#include "client/errors.h"

namespace opensandbox {

using namespace osb::race;

net::awaitable<osb::Result<std::string_view>> UploadBody::read() {
  ++steps_;
  if (at_ == At::Head) {
    at_ = At::Source;
    if (!head_.empty()) co_return std::string_view(head_);
  }
  if (at_ == At::Source) {
    waiting_ = true;
    auto piece = co_await source_();
    waiting_ = false;
    ++steps_;
    if (!piece) {
      failed_ = std::move(piece.error());
      co_return osb::fail(osb::Code::Cancelled, failed_->message);
    }
    if (!piece->empty()) {
      sent_ += piece->size();
      if (!length_ || sent_ <= *length_) co_return *piece;
    }
    if (length_ && sent_ != *length_) {
      failed_ = local_error("the data changed while it was being sent: " + std::to_string(sent_) +
                            " bytes instead of " + std::to_string(*length_))
                    .error();
      co_return osb::fail(osb::Code::Cancelled, failed_->message);
    }
    at_ = At::Tail;
  }
  if (at_ == At::Tail) {
    at_ = At::End;
    if (!tail_.empty()) co_return std::string_view(tail_);
  }
  co_return std::string_view();
}

namespace {

// Returns when nothing was taken for so long.
net::awaitable<void> watch_progress(std::shared_ptr<UploadBody> body, std::chrono::milliseconds limit) {
  for (std::uint64_t seen = body->steps();;) {
    if (!co_await osb::sleep_for(limit)) co_return;
    if (body->steps() == seen && !body->waiting()) co_return;
    seen = body->steps();
  }
}

async::Task<Reply> send(ClientState state, Peer peer, Call call, std::shared_ptr<UploadBody> body) {
  call.stream = body;
  call.head_timeout = std::chrono::milliseconds(0);
  auto outcome =
      co_await (state->call(std::move(peer), std::move(call)) || watch_progress(body, state->config.request_timeout));
  if (body->failed()) co_return Failure(*body->failed());
  if (outcome.index() == 0) co_return std::move(std::get<0>(outcome));
  co_return network_error("the other side took no data for " + std::to_string(state->config.request_timeout.count()) +
                          " ms");
}

}  // namespace

async::Task<Reply> send_upload(ClientState state, Peer peer, Call call, std::shared_ptr<UploadBody> body) {
  return send(std::move(state), std::move(peer), std::move(call), std::move(body));
}

}  // namespace opensandbox
