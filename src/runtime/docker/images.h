#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/lifecycle_create.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "runtime/docker/engine_client.h"

namespace osb::runtime {

// x86_64 is amd64, aarch64 is arm64, in upper or lower case; other names stay.
std::string normal_architecture(std::string_view name);

// A create that waits for an image. Its references outlive the wait.
struct Interest {
  Notifier& changed;                                 // notified when given_up may have become true
  std::function<bool()> given_up;                    // the create was cancelled
  std::function<void(const std::string&)> progress;  // "pulling 45%"
};

// Images of an engine: an image that was seen once is not checked again until the engine says that something changed,
// and a pull that several want is done once.
class Images {
 public:
  struct Wanted {
    std::string name;
    std::optional<api::Platform> platform;  // nothing: the engine's own
    std::optional<api::ImageLogin> login;
    bool pull = true;  // when it is missing
  };

  // The arguments outlive it; pulls run in `tasks`.
  Images(EngineClient& engine, std::filesystem::path credentials, TaskGroup& tasks, net::any_io_executor executor)
      : engine_(engine), credentials_(std::move(credentials)), tasks_(tasks), executor_(std::move(executor)) {}

  // The image's id. DOCKER::SANDBOX_IMAGE_PULL_FAILED, Code::Cancelled when given up.
  net::awaitable<Result<std::string>> ensure(Wanted wanted, Interest interest);
  // Some image changed, or may have.
  void forget_all() { known_.clear(); }

  void set_engine_platform(api::Platform platform) { engine_platform_ = std::move(platform); }
  const api::Platform& engine_platform() const { return engine_platform_; }

 private:
  struct Pull;
  struct Found {
    std::string id;
    api::Platform platform;
  };
  net::awaitable<Result<std::optional<Found>>> look_up(std::string name);
  net::awaitable<Result<void>> pull(Wanted wanted, std::string platform, Interest interest);
  net::awaitable<void> run_pull(std::string name, std::string platform, std::string auth, std::shared_ptr<Pull> pull);
  net::awaitable<Result<void>> follow_pull(std::string name, std::string platform, std::string auth,
                                           std::shared_ptr<Pull> pull);

  EngineClient& engine_;
  std::filesystem::path credentials_;
  TaskGroup& tasks_;
  net::any_io_executor executor_;
  api::Platform engine_platform_;  // "" when the engine did not say
  std::map<std::string, Found> known_;
  std::map<std::string, std::shared_ptr<Pull>> pulls_;  // by name, platform and login
};

}  // namespace osb::runtime
