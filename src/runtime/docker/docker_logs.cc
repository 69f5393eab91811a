#include "runtime/docker/docker_logs.h"

#include <fmt/format.h>

#include "async/race.h"
#include "async/timer.h"
#include "base/log.h"
#include "base/time.h"
#include "http/url.h"
#include "runtime/docker/container.h"
#include "runtime/docker/log_frames.h"

namespace osb::runtime {

using namespace race;

namespace {

constexpr std::size_t kBytesPerLine = 1024;  // what the server counts for one
constexpr std::size_t kMostBytes = 256 << 20;
constexpr std::string_view kBoth = "stdout=1&stderr=1";

std::string log_path(const std::string& id, std::string_view streams, std::string_view rest) {
  return fmt::format("/containers/{}/logs?{}&timestamps=1{}", http::percent_encode(container_name(id)), streams, rest);
}

std::string since_of(Timestamp time) {
  const auto micros = time.time_since_epoch();
  const auto second = std::chrono::floor<std::chrono::seconds>(micros);
  return fmt::format("&since={}.{:06}000", second.count(), (micros - second).count());
}

// Engines end a stream that is followed when the container ends, and some do so before they have sent all that was
// written. So its end is looked at once more, each of the two outputs for itself, because only within one of them
// messages are in the order of their times. Others miss the end of the container now and then, and would keep the
// stream open for ever: such a stream is left some time after the container's end.
class DockerLogStream final : public LogStream {
 public:
  DockerLogStream(EngineClient& engine, Containers& containers, std::chrono::milliseconds silence, std::string id,
                  LogsFrom from)
      : engine_(engine),
        containers_(containers),
        silence_(silence),
        id_(std::move(id)),
        from_(from),
        opened_(timestamp_now()) {}

  net::awaitable<Result<void>> open() {
    std::string rest = from_.follow ? "&follow=1" : "";
    if (from_.tail) rest += "&tail=" + std::to_string(*from_.tail);
    if (from_.since) rest += since_of(*from_.since);
    // An engine may delay even the head of its answer until there is output.
    const auto patience = from_.follow ? EngineClient::Patience::Unlimited : EngineClient::Patience::Short;
    auto body = co_await engine_.body({.target = log_path(id_, kBoth, rest), .patience = patience});
    if (!body) co_return Failure(body.error());
    body_ = std::move(*body);
    co_return Result<void>();
  }

  net::awaitable<Result<std::vector<LogPiece>>> next() override {
    std::vector<LogPiece> out;
    while (out.empty() && body_) {
      const auto bytes = co_await read();
      if (!bytes) co_return broken(bytes.error().message);
      if (bytes->empty()) {
        if (frames_.in_frame()) co_return broken("its last frame is not complete");
        if (auto opened = co_await open_rest(); !opened) co_return Failure(opened.error());
        continue;
      }
      std::vector<LogFrame> frames;
      if (auto read = frames_.feed(*bytes, frames); !read) co_return broken(read.error().message);
      for (LogFrame& frame : frames) take(frame, out);
    }
    co_return out;
  }

 private:
  // Empty at the end of a body.
  net::awaitable<Result<std::string_view>> read() {
    if (!from_.follow || again_ > 0) co_return co_await body_->read();
    auto first = co_await (body_->read() || silent_after_end());
    if (first.index() == 0) co_return std::get<0>(std::move(first));
    log_warn("the engine keeps the log of an ended container open", {{"sandbox", id_}});
    frames_ = LogFrames();
    co_return std::string_view();
  }
  net::awaitable<void> silent_after_end() {
    co_await containers_.wait_ended(id_);
    co_await sleep_for(silence_);
  }

  void take(LogFrame& frame, std::vector<LogPiece>& out) {
    LogMark& mark = frame.stream == 2 ? error_ : output_;
    if (again_ > 0) {
      if (mark.knows(frame)) return;
    } else {
      mark.note(frame);
      if (!first_) first_ = frame.time;
    }
    out.push_back(std::move(frame.piece));
  }

  // Opens the next look at the end, or none.
  net::awaitable<Result<void>> open_rest() {
    body_.reset();
    if (!from_.follow || again_ == 2) co_return Result<void>();
    ++again_;
    // Of one that was silent so far all that was asked for is new.
    const std::optional<Timestamp> begin = from_.tail ? first_.value_or(opened_) : from_.since;
    const auto& seen = (again_ == 1 ? output_ : error_).time();
    // A little earlier: not every engine keeps fractions of a second exactly.
    const std::string rest = seen ? since_of(*seen - std::chrono::milliseconds(1)) : begin ? since_of(*begin) : "";
    auto body =
        co_await engine_.body({.target = log_path(id_, again_ == 1 ? "stdout=1&stderr=0" : "stdout=0&stderr=1", rest)});
    if (!body && body.error().code == Code::NotFound) co_return Result<void>();  // removed: there is no rest
    if (!body) co_return Failure(body.error());
    body_ = std::move(*body);
    co_return Result<void>();
  }

  Failure broken(const std::string& why) const {
    Error error(Code::Unavailable, "the log of sandbox " + id_ + " broke off: " + why);
    error.reason = "DOCKER::UNAVAILABLE";
    return Failure(std::move(error));
  }

  EngineClient& engine_;
  Containers& containers_;
  const std::chrono::milliseconds silence_;
  const std::string id_;
  const LogsFrom from_;
  const Timestamp opened_;
  std::unique_ptr<http::BodySource> body_;
  LogFrames frames_;
  LogMark output_, error_;
  std::optional<Timestamp> first_;
  int again_ = 0;  // 1: the second look at standard output, 2: at standard error
};

}  // namespace

net::awaitable<Result<std::string>> read_log_tail(EngineClient& engine, std::string id, std::size_t bytes) {
  const std::size_t lines = bytes / kBytesPerLine + 1;
  auto raw = co_await engine.bytes(log_path(id, kBoth, "&tail=" + std::to_string(lines)), kMostBytes);
  if (!raw) co_return Failure(raw.error());
  LogFrames frames;
  std::vector<LogFrame> all;
  if (auto read = frames.feed(*raw, all); !read) co_return Failure(read.error());
  std::string text;
  for (const LogFrame& frame : all) {
    // The time stands where a line begins; parts of a long one have it too.
    if (frame.time && (text.empty() || text.ends_with('\n'))) text += frame.piece.time + " ";
    text += frame.piece.text;
  }
  if (text.size() > bytes) text.erase(0, text.size() - bytes);
  co_return text;
}

net::awaitable<Result<std::unique_ptr<LogStream>>> DockerLogs::open(std::string id, LogsFrom from) {
  auto stream = std::make_unique<DockerLogStream>(engine_, containers_, silence_, std::move(id), from);
  if (auto opened = co_await stream->open(); !opened) co_return Failure(opened.error());
  co_return std::move(stream);
}

}  // namespace osb::runtime
