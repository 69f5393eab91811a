#pragma once

#include <optional>
#include <string>

#include "http/client.h"
#include "sandboxd/sandbox/endings.h"
#include "sandboxd/sandbox/sandbox_snapshots.h"

namespace osb::sandboxd {

// Creates of sandboxes: image, process, and execd's first answer. A create goes on when its caller leaves; a remove or
// the daemon's end aborts it. A create that fails leaves nothing.
class Creates {
 public:
  Creates(const SandboxContext& context, ImageService& images, SandboxSnapshots& snapshots, Endings& endings,
          http::Client& client)
      : context_(context), images_(images), snapshots_(snapshots), endings_(endings), client_(client) {}

  // Returns when execd has answered. Code::Conflict: the id exists.
  net::awaitable<Result<api::native::SandboxStatus>> create(api::native::CreateSandbox spec);

  // Makes what the next creates need, once no create is under way: the work would slow a waiting caller down.
  void prepare_later();

 private:
  // Code::Exhausted: the host has as many sandboxes as it may.
  Result<void> check_place() const;

  using Login = std::optional<api::native::RegistryLogin>;
  net::awaitable<void> run(EntryPtr entry, Login login);
  net::awaitable<Result<void>> start(EntryPtr entry, Login login);
  net::awaitable<Result<SandboxBase>> find_base(EntryPtr entry, Login login);
  net::awaitable<Result<SandboxBase>> find_image(EntryPtr entry, Login login);
  net::awaitable<Result<void>> wait_ready(EntryPtr entry);
  net::awaitable<Result<void>> ping(EntryPtr entry);
  net::awaitable<Result<void>> wait_listening(EntryPtr entry);
  net::awaitable<void> prepare();

  const SandboxContext& context_;
  ImageService& images_;
  SandboxSnapshots& snapshots_;
  Endings& endings_;
  http::Client& client_;
  unsigned under_way_ = 0;
  bool preparing_ = false;
};

}  // namespace osb::sandboxd
