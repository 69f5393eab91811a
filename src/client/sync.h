#pragma once

#include <memory>
#include <opensandbox/async.h>
#include <opensandbox/sandbox.h>

#include "client/loop.h"

// The members of the synchronous handles: the client, which keeps the loop alive, and the coroutine object.
namespace opensandbox {

struct Sandbox::Impl {
  Client client;
  async::Sandbox sandbox;
};
struct Commands::Impl {
  Client client;
  async::Sandbox sandbox;
};
struct Files::Impl {
  Client client;
  async::Files files;
};
struct Ptys::Impl {
  Client client;
  async::Sandbox sandbox;
};
struct Egress::Impl {
  Client client;
  async::Sandbox sandbox;
};

// Handlers of the caller as a sink that runs them on the caller's thread. `handlers` outlives the call.
async::EventSink event_sink(Caller& caller, const ExecutionHandlers& handlers);
async::ByteSource byte_source(Caller& caller, const ByteSource& source);
// Runs a download whose bytes the caller's sink takes on the caller's thread. `sink` outlives the call.
using Download = std::function<async::Task<std::uint64_t>(async::ByteSink)>;
async::Task<std::uint64_t> write_behind(Caller& caller, const ByteSink& sink, Download download);
async::HealthCheck health_check(Caller& caller, const Client& client, const HealthCheck& check);

}  // namespace opensandbox
