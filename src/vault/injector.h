#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "vault/binding.h"
#include "vault/replacer.h"
#include "vault/secret.h"

namespace osb::vault {

struct HeaderView {
  std::string_view name;
  std::string_view value;
};

// A request that has left the sandbox, before any byte of it is sent on.
struct RequestHead {
  std::string_view scheme;  // "https" or "http"
  std::string_view host;    // lower case, no port, no dot at its end: equal in SNI and authority
  std::string_view method;
  std::string_view target;  // origin form, as received: "/v1/x?y=z"
  std::span<const HeaderView> headers;
  std::uint16_t port = 0;  // of the destination
  // The caller has proof that the connection leads to `host`: SNI and authority agree, the address is one that we
  // resolved for the name (or an operator's pin), and the server's certificate is good for it. A bound request without
  // proof is refused.
  bool verified = false;
  std::string_view unverified_because = {};  // for the answer and the audit line
};

struct HeaderEdit {
  std::string name;
  SecretText value;
};

// The names of the contract's audit field `decision`.
enum class Outcome : std::uint8_t { NoMatch, Injected, Denied, AmbiguousMatch, SourceError };
std::string_view to_string(Outcome outcome);

// The decision about one request. It holds everything that it needs: the vault may change meanwhile.
struct Decision {
  Outcome outcome = Outcome::NoMatch;

  // For Denied, AmbiguousMatch and SourceError: the answer to the sandbox, text/plain. Nothing goes upstream.
  int status = 0;
  std::string message = {};  // ends with a newline, has no secret in it

  // For Injected. First remove all header fields whose names are among `headers` (in any case), then add these.
  std::vector<HeaderEdit> headers = {};
  std::optional<SecretText> target = {};  // instead of the request's
  // Not null: the request's body goes through a StreamReplacer, so its length is unknown beforehand: send it chunked,
  // without Content-Length.
  ReplacementsPtr body = {};
  // Secrets in answers: header and trailer values always go through apply(), bodies through a StreamReplacer if the
  // operator wants it. Not null when Injected.
  ReplacementsPtr redactions = {};

  // For the audit line. Empty without a match.
  std::string binding = {};
  std::string_view source_type = "inline";  // or "operator"
  std::string path_pattern = {};
  std::string header_names = {};  // "Authorization,X-Key"
  std::string substituted = {};   // "path,query"
  std::uint64_t revision = 0;     // of the vault
};

// The vault of one sandbox at one revision, ready to judge requests. Immutable; a change makes a new one, and callers
// take the sandbox's current one for each request, also on connections that are open.
class Injector {
 public:
  // A binding with its secrets; see Vault::injector().
  struct Rendered {
    Binding binding;
    std::string_view prefix = {};             // of header values, a literal: "Bearer "
    std::vector<Secret> headers = {};         // in the order of binding.auth.headers
    std::vector<Secret> substitutions = {};   // in the order of binding.auth.substitutions
    bool filled = true;                       // false: a secret was lost in a restart
    std::string_view source_type = "inline";  // "operator": a credential comes from an entry of the operator
    std::optional<Timestamp> expires = {};    // the first of its values to expire, and the entry of that value
    std::string expiring_entry = {};
    std::vector<std::string> patterns = {};  // the paths, normal; made by the constructor
  };
  // `clock` outlives it.
  Injector(std::uint64_t revision, std::vector<Rendered> bindings, ReplacementsPtr redactions,
           const Clock& clock = system_clock());

  // Whether some request to the host may match. Connections to other hosts are not opened.
  bool binds(std::string_view scheme, std::string_view host) const;

  Decision decide(const RequestHead& request) const;

  std::uint64_t revision() const { return revision_; }
  bool empty() const { return bindings_.empty(); }

 private:
  std::vector<const Rendered*> candidates(const RequestHead& request) const;
  Decision inject(const Rendered& rendered, const RequestHead& request, Decision decision) const;

  std::uint64_t revision_;
  std::vector<Rendered> bindings_;
  ReplacementsPtr redactions_;
  const Clock& clock_;
};
using InjectorPtr = std::shared_ptr<const Injector>;

}  // namespace osb::vault
