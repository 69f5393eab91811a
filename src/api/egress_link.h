#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json/object.hpp>

#include "base/error.h"
#include "base/ip_address.h"

// Messages between sandboxd and the egress process of its host, over the socket pair that sandboxd gives it (the frames
// are those of async/frame_socket.h). The egress process reads the traffic of sandboxes, so sandboxd trusts none of its
// messages. It checks every request against its own records.
//
// A policy travels as the JSON of policy/policy.h: this module does not know policies.
namespace osb::api::egress {

// ---- sandboxd to egress

// The first message, and again when the resolvers change.
struct Hello {
  std::vector<std::string> resolvers = {};  // "10.0.0.2:53", "[fd00::1]:53"
  std::uint32_t max_addresses = 4096;       // that may be open per sandbox
  // The rest counts in the first message only. Empty: none.
  std::string otlp_endpoint = {};  // of a collector of metrics
  std::chrono::milliseconds otlp_interval{60'000};
  std::string deny_webhook = {};  // hears of denied names
  std::string trust = {};         // certificates in PEM for https of the two; empty: none
  bool log_names = false;         // a line for each answer
};

// The operator's files. They apply to every sandbox.
struct OverlayTexts {
  std::string deny = {};   // deny.always
  std::string allow = {};  // allow.always
};

// The authority that opens connections; sent before the first sandbox with intercepted ones. Holds a private key.
struct Interception {
  std::string authority = {};            // key and certificate in PEM
  std::string trust = {};                // certificates in PEM that servers may be signed by; empty: none
  bool scrub_bodies = false;             // secrets are taken out of the bodies of answers
  std::vector<std::string> pins = {};    // "HOST=ADDRESS", instead of what name servers say
  std::string proxy = {};                // "http://HOST:PORT" that intercepted connections go through; empty: none
  std::string proxy_authorization = {};  // for it: the value of Proxy-Authorization, a secret
};

// A new sandbox with a policy, or a new revision of one.
struct SandboxPolicy {
  std::string id = {};
  IpAddress address = {};
  std::uint64_t revision = 0;
  boost::json::object policy = {};
  std::string token = {};  // of its policy API; a secret
  bool audit = false;      // allow and record names that the policy denies
  bool intercept = false;  // its TCP connections to ports 80 and 443 are led to the listener for interception
  // Of its credential vault, everything but values (src/vault). A process that knows the sandbox has a newer one.
  std::optional<boost::json::object> vault = {};
};

struct SandboxGone {
  std::string id = {};
};

// Comes with a descriptor: a connection to the policy API of the sandbox.
struct Connection {
  std::string id = {};
};

// The answer to OpenAddresses, SetPolicy or SetVault. An error has changed nothing.
struct Answer {
  enum class Problem : std::uint8_t {
    None,
    Stale,     // the revision is not the sandbox's, or the sandbox has gone
    Refused,   // the policy or a closed range forbids it
    Limit,     // too many addresses, or a lifetime above the longest
    Internal,  // the kernel or the disk failed
  };
  std::uint64_t seq = 0;
  std::uint64_t revision = 0;  // in force now; only without a problem
  Problem problem = Problem::None;
  std::string message = {};

  bool ok() const { return problem == Problem::None; }
};

using ToEgress = std::variant<Hello, OverlayTexts, Interception, SandboxPolicy, SandboxGone, Connection, Answer>;

// ---- egress to sandboxd

// The process serves.
struct Ready {};

struct OpenAddress {
  IpAddress address = {};
  std::uint32_t seconds = 0;
  // The name that resolved to it, as the policy has judged it: after a change of the policy sandboxd keeps the
  // addresses of names that are still allowed open, and closes the others. An address without a name is closed then.
  std::string name = {};

  bool operator==(const OpenAddress&) const = default;
};

// Answered once the kernel has the addresses.
struct OpenAddresses {
  std::uint64_t seq = 0;
  std::string id = {};
  std::uint64_t revision = 0;
  std::vector<OpenAddress> addresses = {};
};

// sandboxd enforces the policy, stores it, sends SandboxPolicy with the new revision, then the answer.
struct SetPolicy {
  std::uint64_t seq = 0;
  std::string id = {};
  std::uint64_t revision = 0;  // that the sender knows; another one is in force: Problem::Stale
  boost::json::object policy = {};
};

// sandboxd stores it in the sandbox's record, unread, and sends it to the next egress process.
struct SetVault {
  std::uint64_t seq = 0;
  std::string id = {};
  std::optional<boost::json::object> vault = {};  // none: there is no vault any more
};

using ToSandboxd = std::variant<Ready, OpenAddresses, SetPolicy, SetVault>;

// Numbers are at most 2^63-1. Decoders are strict: an unknown type, a missing field or one of the wrong type is
// Code::InvalidRequest. Unknown fields are ignored. Errors repeat no values: a token may be among them.
std::string encode(const ToEgress& message);
std::string encode(const ToSandboxd& message);
Result<ToEgress> decode_to_egress(std::string_view text);
Result<ToSandboxd> decode_to_sandboxd(std::string_view text);

}  // namespace osb::api::egress
