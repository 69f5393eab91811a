#pragma once

#include <opensandbox/async.h>
#include <optional>
#include <string>

#include "client/wire.h"

namespace opensandbox::async {

// One sandbox and where its ports are reached. Looked up with the first use and kept; forgotten when an address does
// not answer or the sandbox was resumed, because the address may change then.
class SandboxState {
 public:
  SandboxState(Client client, std::string id) : client_(std::move(client)), id_(std::move(id)) {}

  const Client& client() const { return client_; }
  const std::string& id() const { return id_; }
  ClientState wire() const { return client_.state(); }

  Task<Peer> execd() { return find(kExecdPort, execd_); }
  Task<Peer> egress() { return find(kEgressPort, egress_); }
  void forget() { execd_.reset(), egress_.reset(); }

 private:
  Task<Peer> find(int port, std::optional<Peer>& known);

  const Client client_;
  const std::string id_;
  std::optional<Peer> execd_;
  std::optional<Peer> egress_;
};

using SandboxPtr = std::shared_ptr<SandboxState>;

// The error to report for a call to the sandbox that failed with `error`. After a lost connection, or when the server's
// proxy says that the sandbox does not run, the server is asked once what became of it. The answer is then the error:
// it is paused, has ended (and why), or is gone. Other errors, and those of a running sandbox, are reported as they
// are.
net::awaitable<Error> explain(SandboxPtr sandbox, Error error);
// The same as a failure.
net::awaitable<Failure> explained(SandboxPtr sandbox, Error error);

// A call to execd. Where the connection cannot be made at all the address is forgotten, and the error is explained.
Task<Reply> call_execd(SandboxPtr sandbox, Call call);
Task<StreamReply> open_execd(SandboxPtr sandbox, Call call);
// The same without an answer worth reading.
Task<void> tell_execd(SandboxPtr sandbox, Call call);

// The body of an answer into the sink, a piece at a time; returns the number of bytes. `on_start` may be empty, see
// Files::read_to.
Task<std::uint64_t> pump_out(SandboxPtr sandbox, Call call, ByteSink sink,
                             std::function<void(std::optional<std::uint64_t>)> on_start);

template <typename T>
Task<T> failed_task(Failure failure) {
  co_return failure;
}

}  // namespace opensandbox::async
