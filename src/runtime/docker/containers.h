#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "async/timer.h"
#include "http/client.h"
#include "runtime/docker/container.h"
#include "runtime/docker/docker_context.h"
#include "runtime/docker/docker_ports.h"
#include "runtime/docker/port_pool.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// The containers of sandboxes, as the engine last described them, and whether execd answers in each. Tells the observer
// of their changes. One loop.
class Containers {
 public:
  // The context and the ports outlive it.
  Containers(DockerContext& context, PortPool& ports);

  //  nullptr: no listener.
  void set_observer(Observer* observer) { observer_ = observer; }
  Observer* observer() const { return observer_; }

  // Asks the engine. Code::NotFound: there is none, or it is not a sandbox.
  net::awaitable<Result<Container>> look_up(std::string id);
  // Remembers how it is, and its ports.
  void note(Container container);
  // It is gone; its ports are free.
  void forget(const std::string& id);
  // Forgets all that are not among `ids` and not hidden.
  void keep_only(const std::vector<std::string>& ids);
  // As it was last noted; nullptr when it is unknown.
  const Container* find(const std::string& id) const;
  // Until it has ended, or is unknown.
  net::awaitable<void> wait_ended(std::string id);
  // One that is known, or `container` as it stands.
  Instance describe(const Container& container) const;
  // Everything that is not hidden.
  std::vector<Instance> all() const;

  // A container that is being created: create() itself tells how it ends, so the observer hears nothing meanwhile.
  class Hidden {
   public:
    Hidden(Containers& all, std::string id) : all_(all), id_(std::move(id)) { all_.hidden_.insert(id_); }
    ~Hidden() { all_.hidden_.erase(id_); }
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;

   private:
    Containers& all_;
    const std::string id_;
  };
  // A snapshot is being taken: the engine pauses the container for a moment, which is no pause for the observer.
  class Frozen {
   public:
    Frozen(Containers& all, std::string id) : all_(all), id_(std::move(id)) { ++all_.known_[id_].snapshots; }
    ~Frozen();
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;

   private:
    Containers& all_;
    const std::string id_;
  };

  void announce(const std::string& id);
  void announce_progress(const std::string& id, const std::string& message);
  void announce_removal(const std::string& id);
  // The engine says that something changed: looks how it is now, and announces it.
  void refresh(const std::string& id);

  // Execd has answered: the container, which is known, is a sandbox that runs.
  Instance note_answer(const std::string& id);
  // True: execd has answered with our token. False: not yet. An error: another program answers in its place.
  net::awaitable<Result<bool>> ask_execd(std::string id);
  // Asks execd of each that runs and has not answered; returns when all have, or after `limit`. Those that have not
  // are asked on in the background.
  net::awaitable<void> ask_all(std::chrono::milliseconds limit);

 private:
  struct Known {
    Container container;
    bool answered = false;  // execd has, since it was started
    bool asking = false;    // confirm() waits for execd's answer
    int snapshots = 0;      // under way
    bool refreshing = false, stale = false;
    bool seen() const { return !container.id.empty(); }  // not only named in an event
  };
  Instance instance_of(const Known& known) const;
  Instance located(const Container& container) const;
  net::awaitable<void> run_refresh(std::string id);
  net::awaitable<void> confirm(std::string id);

  DockerContext& context_;
  PortPool& ports_;
  const std::shared_ptr<const DockerReach> reach_;
  http::Client execd_;
  Observer* observer_ = nullptr;
  Notifier answered_;  // some container's execd has, or is not asked any more
  Notifier noted_;     // some container has changed, or is gone
  std::unordered_map<std::string, Known> known_;
  std::unordered_set<std::string> hidden_;
};

}  // namespace osb::runtime
