#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "async/net.h"
#include "async/timer.h"
#include "kubernetes/client.h"
#include "kubernetes/object_cache.h"

namespace osb::kubernetes {

// Keeps a cache of the objects of one type up to date: one list, then a watch that goes on from the last version
// whenever the server ends it, is restarted, or cannot be reached for a while. Only versions that the server no longer
// keeps (410) cost another list. Attempts are spaced by a growing, jittered pause.
class Informer {
 public:
  struct Options {
    Resource resource;
    std::string ns = {};  // empty: all namespaces
    std::string labels = {}, fields = {};
    int page = 500;  // objects per answer of a list
    std::chrono::seconds watch_time{290};
    std::chrono::milliseconds first_pause{200}, last_pause{30'000};
    // Takes away fields that are not needed, before an object is kept. managedFields are always taken away.
    std::function<void(json::object&)> trim = {};
    // Called when problem() changes.
    std::function<void(const std::string& problem)> on_problem = {};
  };

  // `client` outlives the informer.
  Informer(net::any_io_executor executor, Client& client, Options options);

  ObjectCache& cache() { return cache_; }
  const ObjectCache& cache() const { return cache_; }
  // The first list is complete.
  bool synced() const { return synced_.is_set(); }
  net::awaitable<bool> wait_synced() { return synced_.wait(); }
  // The last attempt failed: the cache may be behind. Empty: it is up to date as far as the server tells.
  const std::string& problem() const { return problem_; }

  // Until it is cancelled. Once.
  net::awaitable<void> run();

  // Answers to own writes go through these, so that they are trimmed like the others.
  void observe(json::object object);

 private:
  net::awaitable<Result<void>> list();
  net::awaitable<Result<void>> follow();
  ObjectPtr trimmed(const ObjectPtr& object) const;
  void failed(const Error& error);
  void set_problem(std::string problem);

  Client& client_;
  Options options_;
  ObjectCache cache_;
  Event synced_;
  JitteredBackoff pauses_;
  std::string problem_;
};

}  // namespace osb::kubernetes
