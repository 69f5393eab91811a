#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace osb::tls {

// The parts of a ClientHello that say where its connection wants to go.
struct ClientHello {
  std::string server_name;        // SNI in lower case; empty: the client sent none
  std::vector<std::string> alpn;  // protocols that the client offers, in its order
  // The client sent an Encrypted Client Hello. Browsers always send one, with random bytes where they have no key, so
  // it does not tell whether the real name is hidden.
  bool encrypted_hello = false;
};

// Reads a ClientHello out of the first bytes of a connection, as they arrive: RFC 8446, 4.1.2 and 5.1. It is strict
// where leniency would let two readers see two names: lengths that do not add up, repeated extensions, several names,
// names that are no DNS names and bytes behind the message are refused. Needs no OpenSSL and takes no decision.
class ClientHelloReader {
 public:
  enum class State {
    NeedMore,
    Complete,  // hello() is valid
    NotTls,    // the first bytes begin no TLS handshake
    Refused,   // why() says what is wrong
  };

  // Takes the bytes that have come since the last call. After any state but NeedMore further bytes change nothing.
  State take(std::string_view bytes);

  const ClientHello& hello() const { return hello_; }
  const std::string& why() const { return why_; }

 private:
  State refuse(const char* why);
  State take_header(std::string_view& bytes);
  State take_body(std::string_view& bytes);
  State parse_message();

  State state_ = State::NeedMore;
  std::array<unsigned char, 5> header_{};  // of the record being read
  std::size_t header_size_ = 0;
  std::size_t record_left_ = 0;
  std::size_t records_ = 0;
  std::string message_;  // the handshake message, without the records around it
  ClientHello hello_;
  std::string why_;
};

}  // namespace osb::tls
