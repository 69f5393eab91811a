#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "async/net.h"
#include "mcp/json_rpc.h"
#include "mcp/sandboxes.h"

namespace osb::mcp {

// Where the messages of one request go: the output of stdio, or the event stream of one POST.
class Outlet {
 public:
  virtual ~Outlet() = default;
  // A message that is no answer: progress, a notification.
  virtual void send(std::string message) = 0;
  // Once per request, either: its answer, or there will never be one (it was cancelled).
  virtual void answer(std::string message) { send(std::move(message)); }
  virtual void drop() {}
};

// A request that takes time: its arguments, its progress and its cancellation. On the loop, like everything here.
class Call : public std::enable_shared_from_this<Call> {
 public:
  struct Environment {
    net::any_io_executor loop;
    Sandboxes& sandboxes;
    // Starts a short task that may outlive the call: interrupting a command.
    std::function<void(net::awaitable<void>)> errand;
    bool own_only;            // lists show this session's sandboxes instead of all of the server's
    bool published;           // results have the published shapes
    std::size_t reply_bytes;  // most bytes of a result, encoded as plain text
  };
  // `progress_token` null: the client wants no progress.
  Call(const Environment& environment, json::object arguments, json::value progress_token,
       std::shared_ptr<Outlet> outlet);

  const json::value& argument(std::string_view name) const { return arguments_.at(name); }
  std::string text(std::string_view name) const;  // "" where null
  bool flag(std::string_view name) const { return arguments_.at(name).as_bool(); }
  std::int64_t integer(std::string_view name) const { return arguments_.at(name).as_int64(); }
  double number(std::string_view name) const { return arguments_.at(name).to_number<double>(); }
  std::vector<std::string> texts(std::string_view name) const;               // empty where null
  std::map<std::string, std::string> text_map(std::string_view name) const;  // empty where null

  Sandboxes& sandboxes() const { return environment_.sandboxes; }
  const std::function<void(net::awaitable<void>)>& errand() const { return environment_.errand; }
  bool own_only() const { return environment_.own_only; }
  bool published() const { return environment_.published; }
  std::size_t reply_bytes() const { return environment_.reply_bytes; }

  // A step of a job with known steps.
  void progress(double done, double total, std::string_view message);
  // A line of a running command. Lines of a tenth of a second go out together, the last 4 KiB of them.
  void output(std::string_view line);

  // A picture of the result, in base64. False: there is no more room, and the picture is not in the result.
  bool add_picture(std::string_view mime_type, std::string_view base64);
  const json::array& pictures() const { return pictures_; }  // as blocks of content

  bool cancelled() const { return cancelled_; }
  // Called once when the call is cancelled; at once if it is already.
  void on_cancel(std::function<void()> action);

  void cancel();
  // The request is over: sends the rest of the output now, and no progress after it.
  void close();
  Outlet& outlet() { return *outlet_; }

 private:
  void notify(double done, std::optional<double> total, std::string_view message);
  void flush();

  const Environment environment_;
  const json::object arguments_;
  const json::value token_;
  const std::shared_ptr<Outlet> outlet_;
  bool cancelled_ = false;
  bool closed_ = false;
  std::function<void()> on_cancel_;

  json::array pictures_;
  std::size_t picture_bytes_ = 0;
  std::string pending_;     // output not sent yet
  std::uint64_t seen_ = 0;  // bytes of output so far
  bool waiting_ = false;    // output went out less than a moment ago
  net::steady_timer timer_;
};

}  // namespace osb::mcp
