#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/blocking_pool.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "runtime/backend.h"
#include "runtime/docker/container.h"
#include "runtime/docker/create_body.h"
#include "runtime/docker/docker_options.h"
#include "runtime/docker/docker_volumes.h"
#include "runtime/docker/engine_client.h"
#include "runtime/docker/engine_stream.h"
#include "runtime/docker/execd_stage.h"
#include "runtime/docker/images.h"
#include "runtime/docker/port_pool.h"

namespace osb::runtime {

// Sandboxes as containers of a Docker engine, or of Podman by its Docker-compatible socket. The engine is what knows
// them: they are found by name and label, also those that another implementation of the contract has made.
//
// Nothing is polled: the engine's stream of events says what happens to containers. After the stream was lost
// everything is listed once.
class DockerBackend final : public Backend {
 public:
  static Result<std::unique_ptr<DockerBackend>> open(net::any_io_executor executor, DockerOptions options);
  ~DockerBackend() override;

  // Reaches the engine and checks what the options need of it: before anything else. What it is, for the log.
  net::awaitable<Result<std::string>> connect();
  net::awaitable<void> close() override;

  Capabilities capabilities() const override;
  Result<void> check(const api::CreateSandbox& create) const override;
  net::awaitable<Result<void>> check_volumes(const api::CreateSandbox& create) override;
  net::awaitable<Result<Instance>> create(SandboxSpec spec) override;
  net::awaitable<Result<Instance>> inspect(std::string id) override;
  net::awaitable<Result<std::vector<Instance>>> list() override;
  net::awaitable<void> watch(Observer& observer) override;
  void look_again() override { look_again_.notify_all(); }
  net::awaitable<Result<void>> pause(std::string id) override;
  net::awaitable<Result<void>> resume(std::string id) override;
  net::awaitable<Result<void>> remove(std::string id) override;
  std::string origin(const Instance& instance, std::uint16_t port) const override;
  std::string origin_path(const Instance& instance, std::uint16_t port) const override;
  std::string endpoint(const Instance& instance, std::uint16_t port) const override;
  bool through_execd(const Instance& instance, std::uint16_t port) const override;
  std::unique_ptr<http::Connector> connector() override;
  net::awaitable<Result<ResourceUse>> stats(std::string id) override;
  net::awaitable<Result<std::string>> logs(std::string id, std::size_t bytes) override;
  net::awaitable<Result<void>> create_snapshot(std::string sandbox, std::string snapshot) override;
  net::awaitable<Result<std::unique_ptr<LogStream>>> open_logs(std::string id, LogsFrom from) override;
  net::awaitable<Result<bool>> has_snapshot(std::string snapshot) override;
  net::awaitable<Result<void>> remove_snapshot(std::string snapshot) override;
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_snapshot(std::string snapshot) override;
  net::awaitable<Result<std::vector<api::StoredImage>>> list_images() override;
  net::awaitable<Result<api::StoredImage>> pull_image(api::PullImage image,
                                                      std::function<void(const api::PullProgress&)> progress) override;
  net::awaitable<Result<std::vector<api::StoredImage>>> load_image(std::shared_ptr<http::BodySource> archive,
                                                                   std::string name) override;
  net::awaitable<Result<void>> remove_image(std::string name, bool force) override;

 private:
  // A create under way.
  struct Creation {
    explicit Creation(net::any_io_executor executor) : changed(executor), over(executor) {}
    Notifier changed;       // one of the flags was set
    bool given_up = false;  // removed meanwhile
    bool died = false;      // its container has ended, or is gone
    Event over;
  };
  // What a create has made so far.
  struct Made {
    bool container = false;
    std::vector<std::uint16_t> ports;
    DockerVolumes volumes;
    std::string execd;  // where execd is mounted from
  };
  // A container that was made or found.
  struct Known {
    Container container;
    bool answered = false;  // execd has, since it was started
    bool asking = false;    // somebody waits for execd's answer
    int snapshots = 0;      // under way: the engine freezes it meanwhile
    bool refreshing = false, stale = false;
    bool seen() const { return !container.id.empty(); }  // not only heard of in an event
  };

  DockerBackend(net::any_io_executor executor, DockerOptions options, std::unique_ptr<EngineClient> engine);

  // --- create (docker_create.cc)
  net::awaitable<Result<Instance>> make(SandboxSpec spec, Creation& creation, Made& made);
  net::awaitable<Result<void>> prepare(const SandboxSpec& spec, Creation& creation, Made& made, ContainerPlan& plan);
  net::awaitable<Result<void>> make_container(const SandboxSpec& spec, Creation& creation, Made& made,
                                              ContainerPlan plan);
  // By reference to what make() holds.
  net::awaitable<Result<void>> check_mounts(const Container& container, const DockerVolumes& volumes);
  net::awaitable<Result<Instance>> wait_for_execd(std::string id, Creation& creation);
  net::awaitable<Result<bool>> ask_execd(Instance instance);
  net::awaitable<void> undo(std::string id, Made made);
  Interest interest_of(const std::string& id, Creation& creation);
  void tell_progress(const std::string& id, const std::string& message);

  // --- what happens in the engine (docker_watch.cc)
  net::awaitable<Error> follow_events();
  net::awaitable<Result<void>> take_stock();
  net::awaitable<Result<void>> look_at_all(std::vector<std::pair<std::string, std::string>> found);
  void on_event(const EngineEvent& event);
  void on_container_event(const EngineEvent& event);
  void refresh(const std::string& id);
  net::awaitable<void> run_refresh(std::string id);
  net::awaitable<void> confirm(std::string id);
  net::awaitable<void> check_network();
  net::awaitable<void> remove_volumes(std::vector<std::string> names);
  void forget(const std::string& id);
  void note(Container container);
  Instance instance_of(const Known& known) const;
  net::awaitable<Result<Container>> inspect_container(std::string id);

  Result<void> read_seccomp();
  Result<void> check_engine(const boost::json::value& info);
  void note_limits(const boost::json::value& info, bool rootless);
  net::awaitable<Result<void>> set_paused(std::string id, bool paused);
  net::awaitable<Result<bool>> look_for_snapshot(std::string snapshot);
  net::awaitable<void> unpause(std::string id);
  std::string published_host() const;
  bool host_network() const { return options_.docker.network_mode == "host"; }
  bool own_network() const { return !host_network() && options_.docker.network_mode != "bridge"; }

  net::any_io_executor executor_;
  const DockerOptions options_;
  std::unique_ptr<EngineClient> engine_;
  BlockingPool pool_{2};
  http::Client execd_;  // asks whether execd answers
  TaskGroup tasks_;
  Images images_;
  ExecdStage stage_;
  std::optional<PortPool> ports_;
  Observer* observer_ = nullptr;
  std::string seccomp_;
  std::set<std::string> not_enforced_;  // limits that the engine would only pretend to set
  std::string network_missing_;         // why a user-defined network cannot be used; "" when it can
  bool local_ = false;                  // the engine is on this machine and sees the same files
  bool reaches_addresses_ = false;      // and its containers' addresses can be reached from here
  std::string since_;                   // time of the last event
  Notifier answered_;                   // some container's execd has
  Notifier reconnected_;                // everything was listed
  Notifier look_again_;                 // watch() need not wait any longer
  std::unordered_map<std::string, Known> known_;
  std::unordered_map<std::string, std::shared_ptr<Creation>> creating_;
  std::unordered_map<std::string, Made> leftovers_;  // of creates that failed while the engine was away
  std::set<std::string> frozen_;                     // by snapshots that the engine did not live to end
};

}  // namespace osb::runtime
