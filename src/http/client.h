#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "http/body.h"
#include "http/headers.h"
#include "http/transport.h"

namespace osb::http {

// Opens connections for a client: plain addresses here, names and TLS in module tls.
class Connector {
 public:
  virtual ~Connector() = default;
  // `origin` is what the pool keys on: "unix:/run/x.sock", "127.0.0.1:80", "https://example.com:443".
  virtual net::awaitable<Result<std::unique_ptr<Transport>>> connect(std::string origin,
                                                                     std::chrono::milliseconds timeout) = 0;
};

// IP addresses and Unix sockets only.
std::unique_ptr<Connector> make_plain_connector();

struct ClientTimeouts {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds head{60'000};               // request sent -> response head; zero: none
  std::optional<std::chrono::milliseconds> body_stall;  // no byte of the response body for so long
  // The time left for the head once the asker has ended its side: it has left, or has nothing more to send.
  std::chrono::milliseconds after_hangup{5'000};
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  Headers headers;  // Host, Content-Length and Transfer-Encoding are filled in when absent
  std::string body;
  std::shared_ptr<BodySource> stream;  // instead of body; sent while the response is awaited
  ClientTimeouts timeouts;
  // Headers and target hold secrets: the memory that holds them is overwritten before it is given back.
  bool confidential = false;
  Transport* asker = nullptr;  // on whose behalf, see ClientTimeouts::after_hangup; outlives the request
};

struct ClientResponse {
  int status = 0;
  Headers headers;
  // Holds the connection; given back to the pool when read to its end, closed when dropped before.
  std::unique_ptr<BodySource> body;
  // Set instead of `body` after a 101: the connection itself, and the bytes behind the head.
  std::unique_ptr<Transport> upgraded;
  std::string buffered;
};

// HTTP/1.1 with a keep-alive pool per origin, on one executor; requests sweep out what other origins have left behind.
class Client {
 public:
  struct Options {
    std::size_t idle_per_origin = 64;
    std::size_t idle_total = std::numeric_limits<std::size_t>::max();  // the one that idles for longest goes first
    std::chrono::milliseconds idle{60'000};
  };
  explicit Client(std::unique_ptr<Connector> connector);
  Client(std::unique_ptr<Connector> connector, Options options);
  ~Client();

  // A pooled connection that turns out to be dead before any byte of the response is replaced once by a new one, for
  // requests that can be repeated (no stream consumed). 1xx answers other than 101 are skipped; a 101 that was not
  // asked for with Upgrade, or that comes before the whole request has been sent, is an error.
  net::awaitable<Result<ClientResponse>> send(std::string origin, ClientRequest request);

  // Closes idle connections.
  void clear();
  // Closes connections that have been idle for too long or were ended by their servers. Requests do so too; call it
  // where they may stay away for long.
  void sweep();

  struct Pool;  // internal

 private:
  struct Exchange;
  class AskerWatch;
  static net::awaitable<Result<ClientResponse>> run(std::unique_ptr<Exchange> exchange);
  std::shared_ptr<Pool> pool_;
};

}  // namespace osb::http
