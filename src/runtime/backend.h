#pragma once

#include <memory>
#include <string>

#include "api/lifecycle_create.h"
#include "async/net.h"
#include "http/client.h"
#include "runtime/image_store.h"
#include "runtime/instance.h"
#include "runtime/lifecycle.h"
#include "runtime/logs.h"
#include "runtime/pools.h"
#include "runtime/snapshots.h"

namespace osb::runtime {

// The abilities of a backend beside its parts; the rules of a create depend on the inherited fields.
struct Capabilities : api::BackendRules {
  std::string daemon = "the backend";  // the program behind it, as people call it
  std::string no_pause;                // why sandboxes cannot be paused; "": they can
  std::string no_idle_policy;          // why they are not paused by themselves
  std::string open_networks;           // why they reach more than the internet; "": they do not
  bool signed_routes = false;
  // Several servers may use it at once: a create with an Idempotency-Key has an id that follows from the key, so that
  // two servers cannot make it twice.
  bool ids_from_keys = false;
  // Its objects decide what there is: another server may remove a sandbox, and its record here goes too.
  bool removals_are_shared = false;
  bool public_endpoints = false;  // clients reach its endpoints wherever they reach the server
};

// Where sandboxes are made: one host, an engine, a cluster. A backend is a few parts; one that a backend does not have
// is null, and the server refuses the requests that need it.
//
// Lives on one loop. Coroutines of the parts take their arguments by value; the backend outlives them. A backend that
// cannot be reached is Code::Unavailable; an error that it reports carries the backend's own code in Error::reason.
class Backend {
 public:
  virtual ~Backend() = default;
  // Ends its background work; awaited before it goes.
  virtual net::awaitable<void> close() { co_return; }
  virtual const Capabilities& capabilities() const = 0;

  virtual Lifecycle& lifecycle() = 0;
  // Opens connections to the origins of Route.
  virtual std::unique_ptr<http::Connector> connector() = 0;
  virtual Logs* logs() { return nullptr; }
  virtual Snapshots* snapshots() { return nullptr; }
  virtual ImageStore* images() { return nullptr; }
  virtual Pools* pools() { return nullptr; }
};

}  // namespace osb::runtime
