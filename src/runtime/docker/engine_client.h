#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json/value.hpp>

#include "async/net.h"
#include "base/error.h"
#include "http/client.h"
#include "runtime/docker/engine_stream.h"

namespace osb::runtime {

// Where an engine listens, as DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say.
struct EngineAddress {
  std::string host = "unix:///var/run/docker.sock";  // or tcp://host:port
  bool tls = false;                                  // ca.pem, cert.pem and key.pem of cert_path
  std::string cert_path;
};

// A version of the engine API: major 1, and what counts.
struct ApiVersion {
  int minor = 0;
  std::string to_string() const { return "1." + std::to_string(minor); }
};
Result<ApiVersion> parse_api_version(std::string_view text);

// Requests to a container engine that speaks the Docker Engine API: Docker itself, or Podman's socket. A refusal has
// the engine's message and a code by its status; an engine that cannot be reached, or that ends in the middle of an
// answer, is Code::Unavailable. Lives on one loop.
class EngineClient {
 public:
  static Result<std::unique_ptr<EngineClient>> open(net::any_io_executor executor, const EngineAddress& address,
                                                    std::chrono::milliseconds timeout);

  // Agrees on a version; before it, and again after the engine was away. At least 1.40.
  net::awaitable<Result<boost::json::value>> negotiate();  // the answer of /version
  ApiVersion version() const { return version_; }
  // The server and the engine are on one machine, as far as the address tells.
  bool unix_socket() const { return origin_.starts_with("unix:"); }
  // Host part of a tcp:// address, "" otherwise.
  std::string remote_host() const;
  const std::string& name() const { return name_; }  // for messages

  enum class Patience { Short, Unlimited };
  struct Call {
    std::string method = "GET";
    std::string target = {};  // behind the version: "/containers/x/start"
    boost::json::value body = {};
    Patience patience = Patience::Short;
    http::Headers headers = {};
  };
  // The answer's body; an empty one is null.
  net::awaitable<Result<boost::json::value>> call(Call call);
  net::awaitable<Result<std::string>> bytes(std::string target, std::size_t limit);
  // The same as it comes; returns when the head of the answer is there.
  net::awaitable<Result<std::unique_ptr<http::BodySource>>> body(Call call);
  net::awaitable<Result<void>> put(std::string target, std::string content_type, std::string body);

  // A stream that has begun: JSON documents one behind the other.
  class Stream {
   public:
    explicit Stream(std::string name, http::ClientResponse response)
        : name_(std::move(name)), response_(std::move(response)) {}
    // Null: it has ended.
    net::awaitable<Result<boost::json::value>> next();

   private:
    std::string name_;
    http::ClientResponse response_;
    JsonLines lines_;
    bool ended_ = false;
  };
  // Returns when the head of the answer is there.
  net::awaitable<Result<std::unique_ptr<Stream>>> stream(Call call);

  // Closes idle connections: after the engine was away they lead nowhere.
  void forget_connections() { client_.clear(); }

 private:
  EngineClient(std::string origin, std::string name, std::unique_ptr<http::Connector> connector,
               std::chrono::milliseconds timeout);
  net::awaitable<Result<http::ClientResponse>> send(Call call, std::string raw_body);

  std::string origin_, name_;
  std::chrono::milliseconds timeout_;
  http::Client client_;
  ApiVersion version_;
};

// The newest version this code knows; the engine may be older or newer.
inline constexpr int kNewestApi = 47;
inline constexpr int kOldestApi = 40;

}  // namespace osb::runtime
