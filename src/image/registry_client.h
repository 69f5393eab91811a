#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "async/blocking_pool.h"
#include "async/net.h"
#include "base/error.h"
#include "http/client.h"
#include "image/manifest.h"
#include "image/reference.h"

namespace osb::image {

struct Credentials {
  std::string username;
  std::string password;
};

struct RegistryAccess {
  std::optional<Credentials> credentials;  // absent: anonymous
  // Talks HTTP without TLS. Without it only registries on this machine's loopback may do so, if TLS does not answer.
  bool plain_http = false;
  // Errors tell why a host could not be reached. Without it all reasons (a closed port, no route, no TLS) read the
  // same, so that pulls are no port scanner; the log has the reason.
  bool explain_failures = true;
  bool push = false;  // tokens are asked for with the right to push
  // How often a request is repeated that got nowhere: a connection that broke, 429 and 5xx.
  int retries = 4;
};

// The image behind a name, for one platform.
struct ResolvedImage {
  Digest digest;  // of `manifest`
  Manifest manifest;
  std::string config_text;
  ImageConfig config;  // with as many diff ids as the manifest has layers
};

// One image's conversation with its registry (Registry HTTP API v2). registry_push.h pushes by way of it. Answers the
// registry's challenge with Basic or a token. Credentials go to the registry and to the token server it names,
// encrypted unless plain_http, and to no other host that a redirect leads to.
//
// Errors: Code::NotFound, Unauthorized and Forbidden as the registry says, Unavailable for what may work later,
// InvalidRequest for content that is not what its digest says. Lives on one executor; client and pool outlive it.
class RegistryClient {
 public:
  RegistryClient(http::Client& client, BlockingPool& pool, Reference reference, RegistryAccess access);

  net::awaitable<Result<ResolvedImage>> resolve(Platform platform);

  // Bytes so far; called on the executor, at most once per piece written.
  using Progress = std::function<void(std::uint64_t bytes)>;
  // A blob into a file of that name. A connection that breaks is taken up where it broke (Range). The file is whole
  // when this succeeds; on an error it is left as it is.
  net::awaitable<Result<void>> download(Descriptor blob, std::filesystem::path file, Progress progress);

  // One request to the registry itself; no redirect is followed. A challenge is answered once, with what `make` returns
  // then. Other statuses are the caller's to judge. `make` outlives the call.
  net::awaitable<Result<http::ClientResponse>> call(const std::function<http::ClientRequest()>& make);
  // Path and query of a Location that leads to this registry.
  Result<std::string> own_target(std::string_view location) const;

 private:
  net::awaitable<Result<void>> find_origin();
  net::awaitable<Result<http::ClientResponse>> ask(std::string origin, http::ClientRequest request);
  net::awaitable<Result<http::ClientResponse>> get(std::string target, http::Headers headers);
  net::awaitable<Result<http::ClientResponse>> follow(std::string target, const http::Headers& headers);
  net::awaitable<Result<void>> answer_challenge(http::ClientResponse& response);
  net::awaitable<Result<void>> authenticate(const http::Headers& challenge);
  Failure unreachable(Error error) const;
  net::awaitable<Result<void>> fetch_token(std::string realm, std::string service);
  struct Answer {
    std::string text;
    http::Headers headers;
  };
  net::awaitable<Result<Answer>> get_whole(std::string target, http::Headers headers, std::size_t limit);
  struct Document {
    std::string text;
    std::string media_type;
    Digest digest;
  };
  net::awaitable<Result<Document>> manifest(std::string name);
  net::awaitable<Result<std::string>> small_blob(Descriptor blob, std::size_t limit);

  http::Client& client_;
  BlockingPool& pool_;
  const Reference reference_;
  const RegistryAccess access_;
  std::string origin_;         // "https://host:port"; empty until known
  std::string authorization_;  // the header's value; empty until asked for
};

// The error of an answer that is not the one hoped for; `what` names the thing.
Error registry_refusal(int status, const std::string& what);

}  // namespace osb::image
