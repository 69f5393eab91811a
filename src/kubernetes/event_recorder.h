#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <tuple>

#include "async/net.h"
#include "async/timer.h"
#include "kubernetes/client.h"

namespace osb::kubernetes {

// Tells users of a cluster what happens to an object: `kubectl describe` shows it. Events are sent in the background,
// in order, and are never worth a failure: those that cannot be sent are dropped and counted. The same event again
// raises the count of the one that is there.
class EventRecorder {
 public:
  enum class Type { Normal, Warning };
  struct Options {
    std::string component;  // the program: "opensandbox-controller"
    std::string host = {};
    std::size_t queue = 1000;     // events that wait; a further one is dropped
    std::size_t remember = 4096;  // events whose repetitions are counted
    double per_second = 20;
    int burst = 100;
  };

  // `client` outlives it.
  EventRecorder(net::any_io_executor executor, Client& client, Options options);

  // `reason` is one word for programs ("FailedCreate"), `message` a sentence for people. No secrets.
  void record(const json::object& about, Type type, std::string reason, std::string message);

  // Sends events until it is cancelled. Once.
  net::awaitable<void> run();
  std::size_t dropped() const { return dropped_; }
  // Until everything recorded so far was sent or dropped.
  net::awaitable<bool> wait_idle();

 private:
  // Object, type, reason and message: equal events.
  using Identity = std::tuple<std::string, Type, std::string, std::string>;
  struct Pending {
    Identity identity;
    json::object about;  // the reference
    std::string ns;
    std::chrono::system_clock::time_point at;
  };
  struct Sent {
    Identity identity;
    Key key;
    std::int64_t count = 1;
  };
  net::awaitable<Result<void>> send(const Pending& event);
  net::awaitable<Result<void>> repeat(Sent& sent, const Pending& event);
  void remember(const Pending& event, Key key);

  Client& client_;
  Options options_;
  TokenBucket turns_;
  Notifier changed_;
  std::deque<Pending> queue_;
  bool sending_ = false;
  std::list<Sent> recent_;  // newest first
  std::map<Identity, std::list<Sent>::iterator> by_identity_;
  std::size_t dropped_ = 0;
};

}  // namespace osb::kubernetes
