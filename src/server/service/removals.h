#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/service/admission.h"
#include "server/service/backend_presence.h"
#include "server/service/sandbox_states.h"

namespace osb::server {

// Removes sandboxes whose records were taken out of the store, until the backend has nothing left of them; also those
// that an earlier process had begun to remove. Its arguments outlive it.
class Removals {
 public:
  // `on_gone` is called with the id of each sandbox that is gone.
  Removals(const ServiceContext& context, SandboxStates& states, const Creations& creations, DeadlineQueue& deadlines,
           BackendPresence& presence, std::function<void(const std::string&)> on_gone);

  // Takes the record out and waits for the first try.
  net::awaitable<Result<void>> remove(std::string id, Scope scope);
  // Goes on until it is gone. The record was taken out.
  void begin(const std::string& id) { (void)start(id); }
  bool contains(const std::string& id) const { return removals_.contains(id); }

 private:
  struct Removal {
    explicit Removal(net::any_io_executor executor) : settled(std::move(executor)) {}
    Event settled;               // gone, or a first try failed
    std::optional<Error> error;  // of the first try
  };
  std::shared_ptr<Removal> start(const std::string& id);
  net::awaitable<void> run(std::string id, std::shared_ptr<Removal> removal);

  const ServiceContext& context_;
  SandboxStates& states_;
  const Creations& creations_;
  DeadlineQueue& deadlines_;
  BackendPresence& presence_;
  const std::function<void(const std::string&)> on_gone_;
  Admission slots_;
  std::unordered_map<std::string, std::shared_ptr<Removal>> removals_;
};

}  // namespace osb::server
