#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/cancellation_signal.hpp>

#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "mcp/call.h"
#include "mcp/json_rpc.h"
#include "mcp/resources.h"
#include "mcp/sandboxes.h"
#include "mcp/tool.h"

namespace osb::mcp {

// Oldest first.
inline constexpr std::string_view kProtocolVersions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
inline constexpr std::string_view kLatestVersion = kProtocolVersions[std::size(kProtocolVersions) - 1];
bool is_supported_version(std::string_view version);

inline constexpr std::size_t kMaxMessageBytes = 32 << 20;

struct SessionOptions {
  // Leave the sandboxes that the client made when it goes.
  bool keep_sandboxes = false;
  // sandbox_list and snapshot_list show the client's own only: for servers with several clients.
  bool own_only = false;
  std::size_t max_calls = 64;  // at the same time
  ReplyStyle reply = {};
};

// One client: the protocol from initialize on, its calls that run, its sandboxes. Lives on one loop. Requests that take
// time run beside each other, so one never waits for another.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // `tools` outlives it. `general` is for messages that belong to no request.
  ClientSession(net::any_io_executor loop, sdk::Client client, const std::vector<Tool>& tools, SessionOptions options,
                std::shared_ptr<Outlet> general);
  ~ClientSession();

  // A decoded payload of the client. Every request and every malformed message is answered to, or dropped by, `outlet`.
  void receive(Payload payload, const std::shared_ptr<Outlet>& outlet);

  bool initialized() const { return !version_.empty(); }
  std::string_view version() const { return version_; }

  // The client has disconnected: ends its calls, their commands and, unless they are kept, its sandboxes. Returns when
  // that is done. To be awaited before the loop ends.
  net::awaitable<void> close();

 private:
  struct Running;

  void handle(Message message, const std::shared_ptr<Outlet>& outlet);
  void handle_request(Message& message, const std::shared_ptr<Outlet>& outlet);
  void handle_notification(const Message& message);
  RpcResult initialize(const json::object& params);
  RpcResult set_level(const json::object& params);
  void call_tool(Message& message, const std::shared_ptr<Outlet>& outlet);
  void start(const Message& message, json::object arguments, const Tool* tool, const std::shared_ptr<Outlet>& outlet);
  net::awaitable<void> run(std::shared_ptr<Running> running);
  net::awaitable<RpcResult> work(Running& running);
  // For the answer to the request with this id.
  ReplyStyle reply_style(const json::value& id) const;
  net::awaitable<void> remove_created();
  // A task that close() waits for.
  void spawn_errand(net::awaitable<void> task);
  net::awaitable<void> run_errand(net::awaitable<void> task);
  static void cancel(Running& running);
  void log(std::string_view level, json::object data);

  net::any_io_executor loop_;
  const std::vector<Tool>& tools_;
  const SessionOptions options_;
  const std::shared_ptr<Outlet> general_;
  Sandboxes sandboxes_;
  std::uint64_t told_version_ = 0;  // of the resources that the client knows of
  std::string version_;
  std::size_t level_;
  bool closing_ = false;
  std::map<std::string, std::shared_ptr<Running>> running_;  // by the request's id as JSON
  std::size_t errands_ = 0;
  Notifier ended_;  // a call, or an errand
  TaskGroup tasks_;
};

}  // namespace osb::mcp
