#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "http/message.h"
#include "intercept/flow.h"
#include "intercept/stream_filter.h"

namespace osb::intercept {

enum class Protocol : std::uint8_t { Tls, Http, Other };

// The decision about a connection.
struct Admission {
  enum class Kind : std::uint8_t {
    Refuse,
    Splice,  // goes to its destination, and its bytes are not looked at
    Open,    // its requests are read and judged one by one
  };
  Kind kind = Kind::Refuse;
  std::string why;  // Refuse: a sentence for the sandbox
};

// The decision about one request on an opened connection. It holds secrets, so it overwrites them when it goes.
struct Verdict {
  enum class Kind : std::uint8_t { Forward, Edit, Answer };

  Verdict() = default;
  Verdict(Verdict&&) = default;
  Verdict& operator=(Verdict&&) = delete;
  ~Verdict();

  Kind kind = Kind::Answer;

  // Answer: given to the sandbox as text/plain; nothing goes upstream.
  int status = 502;
  std::string message = "the request was not judged\n";

  // Edit.
  http::Headers headers;                          // replace all fields of their names
  std::optional<std::string> target;              // instead of the request's
  MakeStreamFilter filter_request;                // for the body of the request; empty: it stays as it is
  std::function<void(std::string&)> clean_value;  // for each header value of the answer
  MakeStreamFilter filter_answer;                 // for the body of the answer; empty: it stays as it is

  // Stands in front of errors: "credential binding github".
  std::string subject;
  std::shared_ptr<const void> holder;  // for Rules::finished
};

// The one who knows sandboxes, policies and credentials. All calls happen on the interceptor's loop.
class Rules {
 public:
  virtual ~Rules() = default;

  // `name`: from SNI or Host, in lower case, without a dot at its end. Nothing: the client named no host.
  virtual Admission admit(const Flow& flow, Protocol protocol, const std::optional<std::string>& name) = 0;

  // Asked for each request, also on connections that are open: `host` is the name of the connection, and the request's
  // Host agrees with it. Before the first byte of the request is sent, the connection leads to an address from
  // resolve() and, for https, to a server with a certificate for `host`.
  virtual Verdict judge(const Flow& flow, std::string_view scheme, std::string_view host,
                        const http::Request& request) = 0;

  // The addresses of a host that requests may be sent to, by our own name servers or the operator's word; what the
  // sandbox believes does not count.
  virtual net::awaitable<Result<std::vector<IpAddress>>> resolve(IpAddress sandbox, std::string host) = 0;

  struct Outcome {
    std::string_view host;
    std::string_view method;
    int status = 0;  // of the answer that the sandbox gets
    std::chrono::nanoseconds duration{};
  };
  // For audit lines and counters: once for each verdict, when the head of the answer is known.
  virtual void finished(const Flow& flow, const Verdict& verdict, const Outcome& outcome) = 0;

  // A connection failed in a way that its user should hear of: a client that does not trust us, a destination that
  // cannot be reached.
  virtual void failed(const Flow& flow, std::string_view host, std::string_view why) = 0;
};

}  // namespace osb::intercept
