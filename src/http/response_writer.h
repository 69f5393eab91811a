#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "http/connection.h"
#include "http/message.h"

namespace osb::http {

// The status line and header fields as they go out, with the framing fields that fit; the caller has removed any.
void append_head(std::string& out, const Response& response, std::optional<std::uint64_t> length, bool chunked,
                 bool keep_alive, int minor_version);

// Sends the body of a StreamBody response: chunked, with a known length, or until close for HTTP/1.0 clients.
class ResponseWriter final : public BodyWriter {
 public:
  enum class Mode { Chunked, Length, UntilClose, Discard };
  // `request_body` is read by others; as long as it has not ended, watching the peer is their business.
  ResponseWriter(Connection& connection, const MessageBody& request_body, std::string head, Mode mode,
                 std::uint64_t length, std::chrono::milliseconds stall);

  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override;
  using BodyWriter::write;
  net::awaitable<Result<void>> flush() override;
  net::awaitable<void> peer_closed() override;

  // True if finish() has nothing to send and no error to report.
  bool complete() const { return mode_ == Mode::Length && left_ == 0 && head_.empty() && !failure_; }

  // After the producer returned: the final chunk. Fails when a promised length was not met.
  net::awaitable<Result<void>> finish();

  std::uint64_t body_bytes() const { return body_bytes_; }
  bool failed() const { return failure_.has_value(); }

 private:
  net::awaitable<Result<void>> send(std::span<iovec> pieces);

  Connection& connection_;
  const MessageBody& request_body_;
  std::string head_;  // empty once sent
  Mode mode_;
  std::uint64_t left_;
  std::chrono::milliseconds stall_;
  std::uint64_t body_bytes_ = 0;
  std::optional<Error> failure_;
};

}  // namespace osb::http
