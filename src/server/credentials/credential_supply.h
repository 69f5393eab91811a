#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "credentials/catalogue.h"
#include "credentials/providers.h"
#include "http/client.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

// Fetches values of the operator's entries for vaults of sandboxes, and fetches them again before they expire. One
// audit line for each fetch. A value that cannot be fetched anew expires in the vault, which then refuses the requests
// that need it. One loop.
class CredentialSupply {
 public:
  // A credential of a vault whose value came from an entry.
  struct Supplied {
    std::string credential;
    std::string entry;
    std::chrono::seconds refresh_after{0};
  };
  using HandOver = std::vector<Supplied>;

  struct Filled {
    bool changed = false;
    std::string body = {};  // with the values, if changed
    HandOver handed = {};   // those to be fetched again
  };

  // The arguments outlive it.
  CredentialSupply(net::any_io_executor executor, SandboxService& service, http::Client& proxy,
                   credentials::Catalogue catalogue, const Clock& clock = system_clock());

  void set_catalogue(credentials::Catalogue catalogue) { catalogue_ = std::move(catalogue); }

  // The body of a request for the sandbox's vault, with the values of the entries that it names. Code::Forbidden: the
  // sandbox's tenant may not use one. Code::Unavailable: a provider gave no value; the error names entry and binding.
  // Views and the record belong to the caller, who waits.
  net::awaitable<Result<Filled>> fill(std::string_view body, const SandboxRecord& sandbox, std::string_view request_id);

  // The vault has taken the values: from now on they are replaced before they expire.
  void keep_fresh(const std::string& sandbox, HandOver handed);

  // Takes over the entries in vaults of running sandboxes, which an earlier process has filled.
  net::awaitable<void> recover();
  // Awaited before it goes.
  net::awaitable<void> close() { return tasks_.close(); }

 private:
  using Key = std::pair<std::string, std::string>;  // sandbox, credential
  enum class Next : std::uint8_t { Again, Retry, Forget };
  struct Refreshed {
    Next next = Next::Retry;
    std::chrono::seconds after{0};
  };
  struct Answer {
    int status = 0;
    std::string body;
  };

  net::awaitable<Result<credentials::Fetched>> fetch(const credentials::Entry& entry, std::string sandbox,
                                                     std::string bindings, std::string actor, std::string request_id);
  void watch(const std::string& sandbox, Supplied supplied);
  net::awaitable<void> refresh_until_gone(std::string sandbox, Supplied supplied, std::uint64_t generation);
  net::awaitable<Refreshed> refresh(const std::string& sandbox, const Supplied& supplied);
  net::awaitable<Result<Answer>> ask(const SandboxRecord& sandbox, std::string method, std::string target,
                                     std::string body);
  net::awaitable<void> adopt(SandboxPtr sandbox);

  SandboxService& service_;
  http::Client& proxy_;
  credentials::Catalogue catalogue_;
  const Clock& clock_;
  std::map<Key, std::uint64_t> generations_;  // of the tasks that refresh; an older one ends
  std::uint64_t last_generation_ = 0;
  std::size_t refreshing_ = 0;
  Notifier turn_;
  TaskGroup tasks_;
};

}  // namespace osb::server
