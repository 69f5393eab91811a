#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "intercept/h2_side.h"
#include "intercept/opened_connection.h"
#include "intercept/rules.h"

namespace osb::intercept {

// An opened connection of HTTP/2 on both sides: each stream of the client becomes one of the host, so that nothing is
// translated into HTTP/1. Every stream is judged by itself, like a request of OpenedConnection; a refused one is
// answered alone. Bytes wait only in the windows of flow control, which the other side's reading opens again.
class H2Relay {
 public:
  using Upstream = Result<std::unique_ptr<http::Transport>>;

  // `client` and `upstream` have agreed on HTTP/2. An error: the host cannot be reached, and requests for it get that
  // as their answer. `opened` knows the host; references outlive the relay.
  H2Relay(Rules& rules, const OpenedConnection& opened, std::unique_ptr<http::Transport> client, Upstream upstream,
          const H2Limits& limits);
  ~H2Relay();

  // Until the connection has ended.
  net::awaitable<void> run();

 private:
  struct Stream;
  struct Pipe;
  class From;
  class FromClient;
  class FromHost;
  using StreamPtr = std::shared_ptr<Stream>;
  using Streams = std::unordered_map<std::int32_t, StreamPtr>;

  void on_request(std::int32_t id, H2Head head, bool ended);
  void on_answer(Stream& stream, H2Head head, bool ended);
  void pass_on(const StreamPtr& stream, H2Head head, bool ended);
  void answer(Stream& stream, int status, std::string text);
  void finish(Stream& stream, int status);
  void client_closed(std::int32_t id, H2Code code);
  void host_closed(std::int32_t id, H2Code code);
  net::awaitable<void> run_upstream();
  void pump();

  Rules& rules_;
  const OpenedConnection& opened_;
  Streams by_client_, by_host_;  // open streams by their number on that side
  std::unique_ptr<FromClient> from_client_;
  std::unique_ptr<FromHost> from_host_;
  Error unreachable_;  // the reason for no host_
  H2Side client_;
  std::optional<H2Side> host_;
};

}  // namespace osb::intercept
