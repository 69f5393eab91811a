#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "async/net.h"
#include "http/transport.h"
#include "intercept/rules.h"

namespace osb::intercept {

// The beginning of a client's side of a connection, and the host that it names.
struct FirstBytes {
  enum class Kind : std::uint8_t {
    Named,   // a protocol that we can read; `name` may still be missing
    Silent,  // no byte came: the client may wait for the server's greeting
    Bad,     // `why` says what is wrong
    Ended,   // the client has left
  };
  Kind kind = Kind::Ended;
  Protocol protocol = Protocol::Other;
  std::optional<std::string> name;
  bool offers_http1 = true;  // of TLS: a client that names no protocol speaks HTTP/1.1
  bool offers_http2 = false;
  std::string bytes;  // everything that was read
  std::string why;
};

// Reads until it is known where the client wants to go: a whole ClientHello, a whole request head, or bytes that are
// neither. `patience` is the time for all of it.
net::awaitable<FirstBytes> read_first_bytes(http::Transport& client, std::chrono::milliseconds patience);

struct HostField {
  std::optional<std::string> name;  // lower case, no dot at its end; nothing: an IP address
  std::optional<std::uint16_t> port;
};
// The value of a Host field. Nothing: it is none.
std::optional<HostField> parse_host_field(std::string_view text);

}  // namespace osb::intercept
