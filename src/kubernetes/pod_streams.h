#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "http/body.h"
#include "http/websocket.h"
#include "kubernetes/client.h"

namespace osb::kubernetes {

struct PodLogOptions {
  std::string container = {};  // empty: the only one
  bool follow = false;
  bool previous = false;  // of the container before its last restart
  bool timestamps = false;
  std::optional<std::int64_t> tail_lines = {}, since_seconds = {}, limit_bytes = {};
};
// The log as it comes. With `follow` it ends with the container.
net::awaitable<Result<std::unique_ptr<http::BodySource>>> pod_log(Client& client, Key pod, PodLogOptions options = {});

struct PodExecOptions {
  std::vector<std::string> command;
  std::string container = {};
  bool with_stdin = false;
  bool tty = false;  // then there is no stderr of its own
};

// The last message of a command: its exit code, or why it could not run.
Result<int> parse_exec_status(std::string_view json);

// A command in a container, over a WebSocket with the subprotocol v4.channel.k8s.io, which every API server since 1.10
// speaks. It cannot tell the end of the input: a command that waits for it ends with its connection.
class PodExec {
 public:
  static net::awaitable<Result<std::unique_ptr<PodExec>>> start(Client& client, Key pod, PodExecOptions options);

  struct Output {
    bool is_stderr = false;
    std::string data;
  };
  // The next output; nothing: the command has ended with exit_code(). An error: it could not run, or the connection was
  // lost, and the command may go on.
  net::awaitable<Result<std::optional<Output>>> read();
  int exit_code() const { return exit_code_; }

  net::awaitable<Result<void>> write_input(std::string data);
  net::awaitable<Result<void>> resize(int columns, int rows);

 private:
  explicit PodExec(std::unique_ptr<http::WebSocket> socket) : socket_(std::move(socket)) {}

  std::unique_ptr<http::WebSocket> socket_;
  int exit_code_ = -1;
};

struct PodExecResult {
  int exit_code = -1;
  std::string out, err;
};
// A whole command; output beyond `limit` bytes is dropped.
net::awaitable<Result<PodExecResult>> run_in_pod(Client& client, Key pod, PodExecOptions options,
                                                 std::chrono::milliseconds timeout, std::size_t limit = 1 << 20);

}  // namespace osb::kubernetes
