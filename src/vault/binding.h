#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/error.h"

namespace osb::vault {

// The requests that a binding is about. Normalised: hosts and schemes in lower case, methods in upper case, no
// duplicates, defaults filled in.
struct Match {
  std::vector<std::string> schemes = {};
  std::vector<std::string> hosts = {};  // "api.example.com", or "*.example.com": all names below
  std::vector<std::string> methods = {};
  std::vector<std::string> paths = {};  // equal, or a prefix if it ends with '*'

  // 443 for https, 80 for http, in the order of the schemes.
  std::vector<std::uint16_t> ports() const;
  bool operator==(const Match&) const = default;
};

enum class AuthType : std::uint8_t { Bearer, Basic, ApiKey, CustomHeaders, Passthrough };
std::string_view to_string(AuthType type);

enum class Place : std::uint8_t { Path, Query, Header, Body };
std::string_view to_string(Place place);

// A text in requests that is replaced by a secret. Compared byte by byte.
struct Substitution {
  std::string credential = {};
  std::string placeholder = {};
  std::vector<Place> in = {};

  bool is_in(Place place) const;
  bool operator==(const Substitution&) const = default;
};

struct Auth {
  struct Header {
    std::string name;  // canonical: "Private-Token"
    std::string credential;
    bool operator==(const Header&) const = default;
  };
  AuthType type = AuthType::Bearer;
  std::vector<Header> headers = {};  // bearer and basic: one, Authorization; passthrough: none
  std::vector<Substitution> substitutions = {};

  bool operator==(const Auth&) const = default;
};

struct Binding {
  std::string name = {};
  Match match = {};
  Auth auth = {};

  // The credentials that it needs, each once.
  std::vector<std::string> credentials() const;
  bool operator==(const Binding&) const = default;
};

struct BindingRules {
  bool scoped_match = false;  // methods and paths must be given, and no path is "/*"
};

// A binding of a request. Errors are Code::InvalidRequest, name the place and repeat no value but hosts, names and
// paths.
Binding read_binding(api::ObjectReader& reader, const BindingRules& rules);

// As the API shows it: no credentials, no custom header names, no placeholders.
api::json::object to_json(const Binding& binding, std::uint64_t revision);

// All of it but secrets, which it never has; read_binding reads it back.
api::json::object to_stored_json(const Binding& binding);

// "X-API-key" becomes "X-Api-Key". Nothing if it is no field name.
Result<std::string> parse_header_name(std::string_view text);

// Header fields that frame or route a request; neither bindings nor substitutions touch them. Any case.
bool is_reserved_header(std::string_view name);

// A host of a binding, normalised.
Result<std::string> parse_binding_host(std::string_view text);

}  // namespace osb::vault
