#include "client/event_stream.h"

#include <algorithm>

#include "async/timer.h"
#include "base/backoff.h"
#include "base/deadline.h"
#include "base/parse_number.h"
#include "client/errors.h"
#include "client/event_decoder.h"

namespace opensandbox::async {
namespace {

using std::chrono::milliseconds;

std::optional<int> exit_code_of(const Execution& execution) {
  if (!execution.error) return execution.execution_time ? std::optional(0) : std::nullopt;
  return osb::parse_number<int>(execution.error->value);
}

// One run, over as many connections as it takes.
class Run {
 public:
  Run(SandboxPtr sandbox, StreamOptions options, EventSink sink)
      : sandbox_(std::move(sandbox)),
        options_(std::move(options)),
        sink_(std::move(sink)),
        decoder_(options_.keep_json) {
    execution_.id = options_.id;
    execution_.pieces = options_.is_code;
    execution_.last_seq = options_.after;
  }

  Task<Execution> go(Call first) {
    auto stream = co_await open_execd(sandbox_, std::move(first));
    // Nothing came: the command may run or not, and starting it again is not ours to decide. A stream that only reads
    // can be asked for again.
    if (!stream && !(can_continue() && stream.error().kind == ErrorKind::Network)) {
      co_return Failure(std::move(stream.error()));
    }
    for (Error lost = stream ? Error{} : stream.error();;) {
      if (stream) {
        auto read = co_await read_all(*stream->body);
        if (!read && stop_) co_return Failure(std::move(read.error()));
        if (done()) co_return result();
        lost = read ? Error{.kind = ErrorKind::Network,
                            .code = "NETWORK_ERROR",
                            .message = "the event stream ended before the last event"}
                    : std::move(read.error());
      }
      if (!can_continue()) co_return co_await explained(sandbox_, std::move(lost));
      stream = co_await again(std::exchange(lost, {}));
      if (!stream) co_return Failure(std::move(stream.error()));
      ++execution_.reconnects;
    }
  }

 private:
  bool done() const { return execution_.complete || (options_.background && !execution_.id.empty()); }
  // Numbered events make it possible to continue, and the id says where.
  bool can_continue() const {
    return options_.reconnect_for.count() > 0 && !execution_.id.empty() &&
           (execution_.last_seq > 0 || !options_.id.empty());
  }

  Execution result() {
    if (!options_.is_code && !options_.background) execution_.exit_code = exit_code_of(execution_);
    return std::move(execution_);
  }

  Task<void> read_all(osb::http::BodySource& body) {
    decoder_.clear();
    for (;;) {
      auto piece = co_await body.read();
      events_.clear();
      if (!piece) co_return from_transport(piece.error());
      if (piece->empty()) {
        decoder_.finish(events_);
      } else {
        decoder_.feed(*piece, events_);
      }
      const bool end = piece->empty();
      if (decoder_.too_long()) co_return stopped(invalid_response("an event is longer than any event may be"));
      if (auto handed = co_await hand_out(); !handed) co_return stopped(Failure(std::move(handed.error())));
      if (end) co_return Result<void>();
    }
  }

  Task<void> hand_out() {
    // After a reconnect execd begins behind the number we gave; another server may begin earlier.
    std::erase_if(events_, [&](const ExecutionEvent& event) {
      if (event.seq != 0 && event.seq <= execution_.last_seq) return true;
      accumulate(execution_, event, options_.keep_output);
      return false;
    });
    if (!sink_ || events_.empty()) co_return Result<void>();
    co_return co_await sink_(std::span<const ExecutionEvent>(events_));
  }

  Failure stopped(Failure failure) {
    stop_ = true;
    return failure;
  }

  // Asks for the rest until execd answers or the time is up.
  Task<StreamReply> again(Error lost) {
    const osb::Deadline deadline(options_.reconnect_for);
    for (osb::Backoff backoff(milliseconds(20), milliseconds(1000));;) {
      auto stream = co_await open_execd(sandbox_, follow_call(execution_.id, execution_.last_seq));
      if (stream) co_return stream;
      if (stream.error().kind == ErrorKind::Cancelled) co_return stream;
      // The sandbox is gone or has ended: that is the reason, not the stream.
      if (stream.error().kind == ErrorKind::Unhealthy || stream.error().code.ends_with("SANDBOX_NOT_FOUND")) {
        co_return stream;
      }
      // The command is not known any more, or this execd cannot continue streams.
      const int status = stream.error().status;
      if (stream.error().kind == ErrorKind::Api && status < 500 && status != 429) {
        lost.message += "; and it cannot be continued: " + stream.error().message;
        co_return Failure(std::move(lost));
      }
      const milliseconds pause = backoff.next();
      if (pause >= deadline.left()) {
        lost.message += "; tried to continue it for " + std::to_string(options_.reconnect_for.count()) +
                        " ms: " + stream.error().message;
        co_return Failure(std::move(lost));
      }
      if (!co_await osb::sleep_for(pause)) co_return cancelled("the run was cancelled");
    }
  }

  const SandboxPtr sandbox_;
  const StreamOptions options_;
  const EventSink sink_;
  EventDecoder decoder_;
  std::vector<ExecutionEvent> events_;
  Execution execution_;
  bool stop_ = false;  // the sink stopped the stream: it is not lost
};

Task<Execution> run_one(std::unique_ptr<Run> run, Call first) { co_return co_await run->go(std::move(first)); }

}  // namespace

Call follow_call(const std::string& id, std::uint64_t after) {
  std::string target = "/command/" + encode(id) + "/events";
  add_query(target, "after", std::to_string(after));
  Call call{.target = std::move(target)};
  call.headers.add("Accept", "text/event-stream");
  return call;
}

Task<Execution> run_stream(SandboxPtr sandbox, Call first, StreamOptions options, EventSink sink) {
  first.headers.set("Accept", "text/event-stream");
  return run_one(std::make_unique<Run>(std::move(sandbox), std::move(options), std::move(sink)), std::move(first));
}

}  // namespace opensandbox::async
