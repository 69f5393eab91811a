#include "server/http/log_stream.h"

#include <boost/asio/this_coro.hpp>

#include "api/lifecycle_diagnostics.h"
#include "api/lifecycle_sandbox.h"
#include "async/race.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/deadline.h"

namespace osb::server {
namespace {

using namespace race;
using Pieces = Result<std::vector<LogPiece>>;

constexpr std::chrono::seconds kPing(15);
// How long the backend may take to say that a sandbox has ended whose output has.
constexpr std::chrono::seconds kSettle(60);

// One batch between the task that reads and the one that sends: a wait of the second can be given up for a ping, a
// read of the first cannot.
struct Slot {
  explicit Slot(const net::any_io_executor& executor) : changed(executor) {}
  std::optional<Pieces> pieces;
  Notifier changed;
};

net::awaitable<Pieces> open_and_read(SandboxService& service, const std::string& id, runtime::LogsFrom from,
                                     std::unique_ptr<runtime::LogStream>& stream) {
  if (!stream) {
    runtime::Logs* logs = service.backend().logs();
    if (logs == nullptr) co_return fail(Code::NotFound, "this backend keeps no logs");
    auto opened = co_await logs->open(id, from);
    if (!opened) co_return Failure(opened.error());
    stream = std::move(*opened);
  }
  co_return co_await stream->next();
}

net::awaitable<void> read_log(SandboxService& service, std::string id, runtime::LogsFrom from,
                              std::shared_ptr<Slot> slot) {
  std::unique_ptr<runtime::LogStream> stream;
  for (;;) {
    Pieces pieces = co_await open_and_read(service, id, from, stream);
    const bool last = !pieces || pieces->empty();
    slot->pieces = std::move(pieces);
    slot->changed.notify_all();
    if (last || !co_await slot->changed.wait_until([&] { return !slot->pieces; })) co_return;
  }
}

class Sender {
 public:
  Sender(SandboxService& service, SandboxPtr record, runtime::LogsFrom from, http::BodyWriter& out)
      : service_(service), record_(std::move(record)), id_(record_->id), from_(from), out_(out) {}

  net::awaitable<Result<void>> run() {
    const auto executor = co_await net::this_coro::executor;
    if (auto begun = co_await out_.flush(); !begun) co_return begun;
    if (from_.follow && !co_await wait_created()) co_return std::move(result_);
    const auto slot = std::make_shared<Slot>(executor);
    TaskGroup reading(executor);
    reading.spawn("read the log of a sandbox", read_log(service_, id_, from_, slot));
    co_await send_all(*slot);
    co_await reading.close();
    co_return std::move(result_);
  }

 private:
  net::awaitable<bool> send(std::string events) {
    result_ = co_await out_.write(events);
    co_return result_.has_value();
  }
  net::awaitable<bool> send_error(std::string code, std::string message) {
    co_await send(api::encode_log_error_event(unix_millis(), code, message) + "\n\n");
    co_return false;
  }
  net::awaitable<bool> send_removed() {
    return send_error(service_.reason("SANDBOX_NOT_FOUND"), "sandbox " + id_ + " was removed");
  }

  // After a wait for a change; false when the stream is over.
  net::awaitable<bool> take_change(SandboxPtr next) {
    if (service_.closing()) co_return co_await send_error("GENERAL::SHUTTING_DOWN", "the server is stopping");
    if (!next) co_return co_await send_removed();
    const bool quiet = next == record_;
    record_ = std::move(next);
    if (quiet) co_return co_await send(api::encode_ping_event(unix_millis()) + "\n\n");
    co_return true;
  }

  // Until there is a log to open; false when the stream is over.
  net::awaitable<bool> wait_created() {
    while (record_->status.state == api::state::kPending) {
      auto first = co_await (service_.wait_change(record_, kPing) || out_.peer_closed());
      if (first.index() == 1) co_return false;
      if (!co_await take_change(std::get<0>(std::move(first)))) co_return false;
    }
    co_return true;
  }

  net::awaitable<void> send_all(Slot& slot) {
    for (;;) {
      if (slot.pieces) {
        const Pieces pieces = std::move(*slot.pieces);
        slot.pieces.reset();
        slot.changed.notify_all();
        if (!pieces) co_return co_await end_with_error(pieces.error());
        if (pieces->empty()) co_return co_await end();
        std::string events;
        for (const LogPiece& piece : *pieces) {
          api::append_output_event(events, piece.time, piece.text);
          events += "\n\n";
        }
        if (!co_await send(std::move(events))) co_return;
        continue;
      }
      auto first = co_await (slot.changed.wait_until([&] { return slot.pieces.has_value(); }) ||
                             service_.wait_change(record_, kPing) || out_.peer_closed());
      if (first.index() == 2) co_return;
      if (first.index() == 1 && !co_await take_change(std::get<1>(std::move(first)))) co_return;
    }
  }

  // The output is complete. Of one that was followed the record says soon how it ended.
  net::awaitable<void> end() {
    const Deadline deadline(kSettle);
    while (from_.follow && !record_->has_ended()) {
      const auto left = deadline.left();
      if (left.count() == 0) break;
      const SandboxPtr next = co_await service_.wait_change(record_, left);
      if (next != record_ && !co_await take_change(next)) co_return;
      if (service_.closing()) break;
    }
    const SandboxPtr current = service_.store().find(id_);
    if (!current) {
      co_await send_removed();
      co_return;
    }
    const runtime::Instance* instance = service_.instance(id_);
    const api::Status& status = current->status;
    const bool over = current->has_ended();
    const auto code = over && instance != nullptr ? instance->exit_code : std::nullopt;
    co_await send(api::encode_log_end_event(unix_millis(), status.state, over ? status.reason : "", code) + "\n\n");
  }

  net::awaitable<void> end_with_error(Error error) {
    if (!service_.store().find(id_)) {
      co_await send_removed();
    } else if (service_.closing()) {
      co_await send_error("GENERAL::SHUTTING_DOWN", "the server is stopping");
    } else if (error.code == Code::NotFound) {
      co_await end();  // one that could not be created, or that the backend has lost, has written nothing
    } else {
      co_await send_error(error.reason.empty() ? service_.reason("SANDBOX_QUERY_FAILED") : error.reason, error.message);
    }
  }

  SandboxService& service_;
  SandboxPtr record_;
  const std::string id_;
  const runtime::LogsFrom from_;
  http::BodyWriter& out_;
  Result<void> result_;
};

net::awaitable<Result<void>> send_log(SandboxService& service, SandboxPtr record, runtime::LogsFrom from,
                                      http::BodyWriter& out) {
  Sender sender(service, std::move(record), from, out);
  co_return co_await sender.run();
}

}  // namespace

http::Response log_stream(SandboxService& service, SandboxPtr record, runtime::LogsFrom from) {
  return http::event_stream([&service, record = std::move(record), from](http::BodyWriter& out) {
    return send_log(service, record, from, out);
  });
}

}  // namespace osb::server
