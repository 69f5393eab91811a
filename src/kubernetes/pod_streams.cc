#include "kubernetes/pod_streams.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "async/timer.h"
#include "base/parse_number.h"
#include "http/url.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes {
namespace {

constexpr char kStdin = 0, kStdout = 1, kStderr = 2, kStatus = 3, kResize = 4;

class Target {
 public:
  explicit Target(std::string path) : text_(std::move(path)) {}
  Target& add(std::string_view name, std::string_view value) {
    text_ += (text_.contains('?') ? "&" : "?") + std::string(name) + "=" + http::percent_encode(value);
    return *this;
  }
  Target& flag(std::string_view name, bool on) { return on ? add(name, "true") : *this; }
  Target& amount(std::string_view name, std::optional<std::int64_t> value) {
    return value ? add(name, std::to_string(*value)) : *this;
  }
  Target& name(std::string_view name, std::string_view value) { return value.empty() ? *this : add(name, value); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

net::awaitable<Result<PodExecResult>> collect(Client& client, Key pod, PodExecOptions options, std::size_t limit) {
  auto exec = co_await PodExec::start(client, std::move(pod), std::move(options));
  if (!exec) co_return Failure(exec.error());
  PodExecResult out;
  for (;;) {
    auto piece = co_await (*exec)->read();
    if (!piece) co_return Failure(piece.error());
    if (!*piece) break;
    std::string& into = (*piece)->is_stderr ? out.err : out.out;
    into.append((*piece)->data, 0, limit - std::min(limit, into.size()));
  }
  out.exit_code = (*exec)->exit_code();
  co_return out;
}

}  // namespace

net::awaitable<Result<std::unique_ptr<http::BodySource>>> pod_log(Client& client, Key pod, PodLogOptions options) {
  Target target(resources::kPods.path(pod.ns, pod.name, "log"));
  target.name("container", options.container).flag("follow", options.follow).flag("previous", options.previous);
  target.flag("timestamps", options.timestamps).amount("tailLines", options.tail_lines);
  target.amount("sinceSeconds", options.since_seconds).amount("limitBytes", options.limit_bytes);
  return client.stream(target.text());
}

Result<int> parse_exec_status(std::string_view message) {
  const auto parsed = api::parse_json(message);
  if (!parsed || !parsed->is_object()) return fail(Code::Internal, "exec: the last message is no status");
  const json::object& status = parsed->get_object();
  if (text(status, {"status"}) == "Success") return 0;
  if (text(status, {"reason"}) == "NonZeroExitCode") {
    const json::value* causes = find(status, {"details", "causes"});
    for (std::size_t i = 0; causes != nullptr && causes->is_array() && i < causes->get_array().size(); ++i) {
      const json::object* cause = causes->get_array()[i].if_object();
      if (cause == nullptr || text(*cause, {"reason"}) != "ExitCode") continue;
      if (const auto code = parse_number<int>(text(*cause, {"message"}))) return *code;
    }
  }
  Error error = api_error(status);
  error.message = "exec: " + error.message;
  return Failure(std::move(error));
}

net::awaitable<Result<std::unique_ptr<PodExec>>> PodExec::start(Client& client, Key pod, PodExecOptions options) {
  Target target(resources::kPods.path(pod.ns, pod.name, "exec"));
  for (const std::string& word : options.command) target.add("command", word);
  target.name("container", options.container).flag("stdin", options.with_stdin).flag("stdout", true);
  target.flag("stderr", !options.tty).flag("tty", options.tty);
  auto opened = co_await client.open_connection(target.text());
  if (!opened) co_return Failure(opened.error());
  opened->headers.set("Sec-WebSocket-Protocol", "v4.channel.k8s.io");
  http::WebSocket::Options limits;
  // A command may be silent for as long as it likes; a peer that is gone does not answer pings.
  auto socket = co_await http::websocket_connect(std::move(opened->transport), std::move(opened->host),
                                                 std::move(opened->target), std::move(opened->headers), limits);
  if (!socket) co_return with_context("exec in pod " + pod.to_string(), socket.error());
  co_return std::unique_ptr<PodExec>(new PodExec(std::move(*socket)));
}

net::awaitable<Result<std::optional<PodExec::Output>>> PodExec::read() {
  for (;;) {
    auto message = co_await socket_->read();
    if (!message) co_return with_context("exec: the connection ended before the command", message.error());
    if (message->data.empty()) continue;
    const char channel = message->data.front();
    message->data.erase(0, 1);
    if (channel == kStatus) {
      const auto code = parse_exec_status(message->data);
      if (!code) co_return Failure(code.error());
      exit_code_ = *code;
      co_return std::optional<Output>();
    }
    // The server opens each stream with an empty message.
    if ((channel != kStdout && channel != kStderr) || message->data.empty()) continue;
    co_return Output{channel == kStderr, std::move(message->data)};
  }
}

net::awaitable<Result<void>> PodExec::write_input(std::string data) {
  data.insert(data.begin(), kStdin);
  co_return co_await socket_->send_binary(data);
}

net::awaitable<Result<void>> PodExec::resize(int columns, int rows) {
  std::string message = json::serialize(json::object{{"Width", columns}, {"Height", rows}});
  message.insert(message.begin(), kResize);
  co_return co_await socket_->send_binary(message);
}

net::awaitable<Result<PodExecResult>> run_in_pod(Client& client, Key pod, PodExecOptions options,
                                                 std::chrono::milliseconds timeout, std::size_t limit) {
  const std::string name = pod.to_string();
  auto result = co_await with_timeout(collect(client, std::move(pod), std::move(options), limit), timeout);
  if (!result) co_return with_context("command in pod " + name, result.error());
  co_return result;
}

}  // namespace osb::kubernetes
