#include "runtime/native/native_logs.h"

#include "http/url.h"

namespace osb::runtime {
namespace {

class NativeLogStream final : public LogStream {
 public:
  NativeLogStream(std::string id, std::shared_ptr<http::BodySource> body)
      : id_(std::move(id)), body_(std::move(body)) {}

  net::awaitable<Result<std::vector<LogPiece>>> next() override {
    std::vector<LogPiece> out;
    while (out.empty() && !ended_) {
      const auto bytes = co_await body_->read();
      if (!bytes) {
        Error error(Code::Unavailable, "the log of sandbox " + id_ + " broke off: " + bytes.error().message);
        error.reason = "NATIVE::UNAVAILABLE";
        co_return Failure(std::move(error));
      }
      ended_ = bytes->empty();
      if (ended_) {
        reader_.finish(out);
      } else {
        reader_.feed(*bytes, out);
      }
    }
    co_return out;
  }

 private:
  const std::string id_;
  std::shared_ptr<http::BodySource> body_;
  TimedLogReader reader_;
  bool ended_ = false;
};

std::string log_path(const std::string& id, std::string_view rest) {
  return "/v1/sandboxes/" + http::percent_encode(id) + "/logs" + std::string(rest);
}

std::string stamp_of(Timestamp time) {
  const auto nanos = std::chrono::nanoseconds(time.time_since_epoch());
  const auto second = std::chrono::floor<std::chrono::seconds>(nanos);
  const LogStamp stamp = make_log_stamp({second.count(), (nanos - second).count()});
  return {stamp.data(), stamp.size() - 1};
}

}  // namespace

net::awaitable<Result<std::string>> NativeLogs::tail(std::string id, std::size_t bytes) {
  return daemon_.text(log_path(id, "?times=1&bytes=" + std::to_string(bytes)));
}

net::awaitable<Result<std::unique_ptr<LogStream>>> NativeLogs::open(std::string id, LogsFrom from) {
  std::string target = log_path(id, from.follow ? "/stream?follow=1" : "/stream?follow=0");
  if (from.tail) target += "&tail=" + std::to_string(*from.tail);
  if (from.since) target += "&since=" + http::percent_encode(stamp_of(*from.since));
  auto body = co_await daemon_.download(std::move(target));
  if (!body) co_return Failure(body.error());
  co_return std::make_unique<NativeLogStream>(std::move(id), std::move(*body));
}

}  // namespace osb::runtime
