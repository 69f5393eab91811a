#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "opensandbox/error.h"

namespace opensandbox {

using StringMap = std::map<std::string, std::string>;

// Where the server is and how to talk to it.
struct ConnectionConfig {
  // "host", "host:port", with or without "http://" or "https://"; a scheme here beats `protocol`. A trailing slash and
  // an existing "/v1" are dropped. Empty: $OPEN_SANDBOX_DOMAIN, else "localhost:8080".
  std::string domain = {};
  // Empty: $OPEN_SANDBOX_API_KEY, unless $OPEN_SANDBOX_DOMAIN names another server than `domain`: the key is that
  // server's. If there is none, no key is sent. The key goes to the server only, never to a sandbox.
  std::string api_key = {};
  // "http" or "https". Empty: $OPEN_SANDBOX_PROTOCOL, else "http".
  std::string protocol = {};
  // How long to wait for the other side: to connect, for the head of an answer, and between two pieces of it. Calls
  // that take long by nature (an image pull, a create that waits) have limits of their own. Must be positive.
  std::chrono::milliseconds request_timeout{30'000};
  // How long to send a request again that the server could not hand to a paused sandbox, because waking it took too
  // long. Such a request reached nothing, whatever its method. At most five times; streamed bodies are not sent again.
  std::chrono::milliseconds wake_timeout{60'000};
  StringMap headers = {};         // added to every request, also those to execd and egress
  bool use_server_proxy = false;  // reach sandboxes through the server instead of by their own address
  std::string user_agent = {};    // empty: "OpenSandbox-Cpp-SDK/<version>"
  std::string ca_file = {};       // PEM file trusted instead of the system's roots
  bool insecure_tls = false;      // takes any certificate: no protection against an active attacker
  // Called with one line per request ("GET /v1/sandboxes 200 3 ms request-id"), from the client's own thread. Never
  // holds keys, tokens or bodies.
  std::function<void(std::string_view)> debug = {};

  // The fields that are empty filled from the environment and the defaults, and checked (InvalidArgument).
  Result<ConnectionConfig> resolved() const;
  // "http://localhost:8080/v1". Of a resolved configuration.
  std::string base_url() const;
};

// A connection to one server: connection pool and one background thread. A handle that is cheap to copy; all copies
// mean the same connection, which ends with the last of them and of the objects made from it. Thread-safe.
class Client {
 public:
  // Does not touch the network.
  static Result<Client> open(ConnectionConfig config = {});

  Client(const Client&);
  Client(Client&&) noexcept;
  Client& operator=(const Client&);
  Client& operator=(Client&&) noexcept;
  ~Client();

  // As resolved.
  const ConnectionConfig& config() const;

  // GET /health of the server: whether one answers there.
  Result<void> ping() const;

  struct Core;  // internal
  explicit Client(std::shared_ptr<Core> core);
  const std::shared_ptr<Core>& core() const { return core_; }

 private:
  std::shared_ptr<Core> core_;
};

// "0.1.0"
std::string_view version();

}  // namespace opensandbox
