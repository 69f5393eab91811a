#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <malloc.h>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "async/blocking_pool.h"
#include "async/run_loop.h"
#include "async/signals.h"
#include "async/task_group.h"
#include "base/clock.h"
#include "base/log.h"
#include "containerd/client.h"
#include "containerd/commit/command_line.h"
#include "containerd/commit/committer.h"
#include "http/client.h"
#include "image/public_address.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"
#include "tls/connector.h"

namespace osb::containerd {
namespace {

// The kubelet shows no more of it.
constexpr std::size_t kLongestMessage = 4096;

// The last words for the controller. The kubelet makes the file; without it there is nobody to tell.
void leave_message(const std::string& path, const std::string& text) {
  const auto file = sys::open_at(AT_FDCWD, path, O_WRONLY | O_TRUNC);
  if (file) (void)sys::write_all(file->get(), std::string_view(text).substr(0, kLongestMessage), path);
}

std::string result_json(const std::vector<Committed>& all) {
  namespace json = boost::json;
  json::array containers;
  for (const Committed& each : all) {
    containers.emplace_back(
        json::object{{"name", each.container}, {"image", each.image}, {"digest", each.digest.to_string()}});
  }
  return json::serialize(json::object{{"containers", std::move(containers)}});
}

// Nothing: there is no such file, and the registry is asked without credentials.
Result<std::optional<std::string>> read_credentials(const std::string& path) {
  auto text = sys::read_text(path, 1 << 20);
  if (text) return std::move(*text);
  if (text.error().code == Code::NotFound) return std::nullopt;
  return Failure(text.error());
}

// Without TLS, layers and credentials can be read on the way: that way stays within the cluster's own network.
Result<void> check_address(const http::Url& origin, const std::string& address) {
  if (origin.scheme == "https" || !image::is_public_address(address)) return {};
  return fail(Code::Forbidden, "registry " + origin.host + " is at a public address: it is not asked without TLS");
}

net::awaitable<Result<std::string>> work(const CommandLine& line, std::optional<std::string> credentials, Event& stop) {
  const auto executor = co_await net::this_coro::executor;
  BlockingPool pool(1);
  http::Client http(tls::make_connector(executor, nullptr, check_address));
  Client client(executor, line.socket);
  Committer committer({client, http, pool, system_clock(), stop}, line, std::move(credentials));
  Result<std::string> out;
  if (line.action == CommandLine::Action::Unpause) {
    const auto done = co_await committer.unpause();
    out = done ? Result<std::string>() : Failure(done.error());
  } else {
    const auto done = co_await committer.run();
    out = done ? Result<std::string>(result_json(*done)) : Failure(done.error());
  }
  http.clear();
  co_await client.close();
  co_return out;
}

net::awaitable<void> serve(const CommandLine& line, std::optional<std::string> credentials,
                           Result<std::string>& result) {
  const auto executor = co_await net::this_coro::executor;
  SignalSet signals(executor, {SIGTERM, SIGINT});
  Event stop(executor);
  TaskGroup tasks(executor);
  const auto listen = [](SignalSet& from, Event& to) -> net::awaitable<void> {
    if (co_await from.next()) to.set();
  };
  tasks.spawn("signals", listen(signals, stop));
  result = co_await work(line, std::move(credentials), stop);
  co_await tasks.close();
}

int start(const std::vector<std::string>& args) {
  Labels environment;
  for (const char* name : {"CONTAINERD_SOCKET", "SNAPSHOT_REGISTRY_INSECURE"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  const auto line = parse_command_line(args, environment);
  if (!line) {
    std::fprintf(stderr, "image-committer: %s\n%s", line.error().message.c_str(), usage());
    return 2;
  }
  if (line->action == CommandLine::Action::ShowHelp || line->action == CommandLine::Action::ShowVersion) {
    const bool version = line->action == CommandLine::Action::ShowVersion;
    std::fputs(version ? "image-committer " OSB_VERSION "\n" : usage(), stdout);
    return 0;
  }
  if (auto configured = configure_log({}); !configured) return 1;
  ignore_sigpipe();
  Result<std::string> result;
  if (auto credentials = read_credentials(line->credentials); credentials) {
    net::io_context io(1);
    run_until_done(io, serve(*line, std::move(*credentials), result));
  } else {
    result = Failure(credentials.error());
  }
  if (!result) {
    log_error("failed", {{"pod", line->pod}, {"error", result.error().message}});
    leave_message(line->message, result.error().message);
    return 1;
  }
  if (!result->empty()) std::printf("%s\n", result->c_str());
  leave_message(line->message, *result);
  return 0;
}

}  // namespace
}  // namespace osb::containerd

int main(int argc, char** argv) {
  ::mallopt(M_ARENA_MAX, 1);
  try {
    return osb::containerd::start({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "image-committer: %s\n", bug.what());
    return 1;
  }
}
