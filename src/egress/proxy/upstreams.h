#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "async/task_group.h"
#include "base/clock.h"
#include "base/error.h"
#include "egress/dns/response.h"
#include "egress/proxy/endpoint.h"
#include "egress/proxy/random.h"
#include "egress/proxy/upstream_socket.h"

namespace osb::egress {

struct UpstreamOptions {
  std::chrono::milliseconds timeout{5000};  // until a question has failed
  SocketIdentity identity = {};             // of our sockets
  std::chrono::seconds probe_interval{30};
  std::string probe_name = {};  // type A of this name; empty: the root's name servers
  const Clock* clock = &system_clock();
};

// Asks upstream servers over UDP, and over TCP where an answer was truncated. A question goes to the first server that
// works, in the configured order. Without an answer it is sent again, to the next server, after 0.4, 1.2 and 2.8
// seconds; the first good answer counts. A server that answers nothing is not asked first any more until it answers a
// probe: every server is probed now and then, a silent one each second.
class Upstreams {
 public:
  using Done = std::move_only_function<void(Result<Response>)>;

  Upstreams(net::any_io_executor executor, UpstreamOptions options);
  ~Upstreams();
  Upstreams(const Upstreams&) = delete;
  Upstreams& operator=(const Upstreams&) = delete;

  void set_servers(const std::vector<Endpoint>& servers);
  // `done` gets a response with the question's name and type and an rcode of NOERROR or NXDOMAIN. It may be called
  // before this returns.
  void ask(const Question& question, Done done);
  // Called after each batch of answers: replies can be sent together.
  void on_drained(std::function<void()> drained) { drained_ = std::move(drained); }
  net::awaitable<void> close();

  std::size_t in_flight() const { return lookups_.size(); }
  bool healthy(std::size_t server) const { return servers_[server]->healthy; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Server {
    Endpoint endpoint;
    std::vector<std::shared_ptr<UpstreamSocket>> sockets;
    bool healthy = true;
    unsigned silent = 0;  // questions without an answer since the last one with
    Time last_answer{};
  };
  struct Attempt {
    std::shared_ptr<Server> server;
    std::shared_ptr<UpstreamSocket> socket;  // nullptr: TCP
    std::uint16_t id = 0;
    bool failed = false;
  };
  struct Lookup {
    Question question;
    Done done;
    Time deadline{};
    std::vector<Attempt> attempts;
    std::size_t next_server = 0;
    bool probe = false;
  };
  struct Alarm {
    Time when{};
    std::uint64_t lookup = 0;
  };

  std::uint64_t begin(const Question& question, Done done, std::shared_ptr<Server> only);
  bool send(std::uint64_t number, Lookup& lookup, const std::shared_ptr<Server>& server);
  bool send_to_next(std::uint64_t number, Lookup& lookup);
  std::shared_ptr<UpstreamSocket> pick_socket(Server& server);
  std::vector<std::shared_ptr<Server>> order() const;
  void received(Server& server, std::uint64_t number, std::string_view message);
  void attempt_failed(std::uint64_t number, Server& server);
  void answered(Server& server);
  void silent(Server& server);
  void finish(std::uint64_t number, Result<Response> result);
  void ask_by_tcp(std::uint64_t number, std::shared_ptr<Server> server);
  net::awaitable<void> tcp_lookup(std::uint64_t number, std::shared_ptr<Server> server);
  net::awaitable<void> probe_forever();
  void probe(std::shared_ptr<Server> server);
  void set_alarm();
  void ring();

  net::any_io_executor executor_;
  UpstreamOptions options_;
  std::vector<std::shared_ptr<Server>> servers_;
  std::unordered_map<std::uint64_t, Lookup> lookups_;
  std::uint64_t last_number_ = 0;
  std::deque<Alarm> alarms_[5];  // one queue for each delay, so that each is in order
  net::steady_timer timer_;
  Time timer_due_ = Time::max();
  Random random_;
  std::string buffer_;
  std::function<void()> drained_ = [] {};
  TaskGroup tasks_;
};

}  // namespace osb::egress
