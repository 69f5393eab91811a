#include "vault/binding.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/json_escape.h"
#include "base/text.h"
#include "policy/text.h"

namespace osb::vault {
namespace {

namespace json = api::json;
using api::ObjectReader;
using policy::trimmed;

constexpr std::size_t kMostEntries = 256;  // of each list
constexpr std::size_t kLongestText = 4096;
constexpr std::array<std::string_view, 5> kAuthTypes = {"bearer", "basic", "apiKey", "customHeaders", "passthrough"};
constexpr std::array<std::string_view, 4> kPlaces = {"path", "query", "header", "body"};
constexpr std::array<std::string_view, 5> kDefaultMethods = {"GET", "POST", "PUT", "PATCH", "DELETE"};

template <typename T>
void add_once(std::vector<T>& list, T item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

// A list of texts, each normalised by `parse`. An absent and an empty one are `defaults`.
std::vector<std::string> read_list(ObjectReader& reader, std::string_view field,
                                   const std::function<Result<std::string>(std::string_view)>& parse,
                                   std::vector<std::string> defaults) {
  const auto given = reader.string_list(field);
  if (!given || given->empty()) return defaults;
  std::vector<std::string> out;
  if (given->size() > kMostEntries) reader.reject(field, "at most 256 entries");
  for (const std::string& each : *given) {
    if (reader.failed()) return out;
    auto parsed = each.size() > kLongestText ? fail(Code::InvalidRequest, "longer than 4096 bytes") : parse(each);
    if (!parsed) {
      reader.reject(field, parsed.error().message);
      return out;
    }
    add_once(out, std::move(*parsed));
  }
  return out;
}

Result<std::string> parse_scheme(std::string_view text) {
  std::string scheme = policy::lower(trimmed(text));
  if (scheme == "https" || scheme == "http") return scheme;
  return fail(Code::InvalidRequest, in_quotes(scheme) + " is neither https nor http");
}

Result<std::string> parse_method(std::string_view text) {
  std::string method = upper(trimmed(text));
  if (method.empty()) return fail(Code::InvalidRequest, "a method is blank");
  if (!parse_header_name("x" + method)) return fail(Code::InvalidRequest, in_quotes(method) + " is no method");
  return method;
}

Result<std::string> parse_path(std::string_view text) {
  const std::string_view path = trimmed(text);
  if (!path.starts_with('/')) return fail(Code::InvalidRequest, in_quotes(path) + " does not start with /");
  if (has_control_byte(path)) return fail(Code::InvalidRequest, "a path has control characters");
  if (path.find_first_of("?#") != std::string_view::npos) {
    return fail(Code::InvalidRequest, in_quotes(path) + ": a path ends before ? and #");
  }
  return std::string(path);
}

// The port follows from the scheme; the field is read for old clients and has no effect.
void check_ports(ObjectReader& reader) {
  const json::value* value = reader.find("ports");
  if (value == nullptr) return;
  const json::array* list = value->if_array();
  if (list == nullptr) return reader.reject("ports", "expected an array");
  for (const json::value& item : *list) {
    const std::int64_t* port = item.if_int64();
    if (port == nullptr || (*port != 80 && *port != 443)) {
      return reader.reject("ports", "only 80 and 443 are intercepted");
    }
  }
}

Match read_match(ObjectReader& reader, const BindingRules& rules) {
  reader.refuse_unknown({"hosts", "schemes", "ports", "methods", "paths"});
  Match out;
  out.hosts = read_list(reader, "hosts", parse_binding_host, {});
  if (out.hosts.empty()) reader.reject("hosts", "at least one host is required");
  out.schemes = read_list(reader, "schemes", parse_scheme, {"https"});
  check_ports(reader);
  out.methods =
      read_list(reader, "methods", parse_method,
                rules.scoped_match ? std::vector<std::string>()
                                   : std::vector<std::string>(kDefaultMethods.begin(), kDefaultMethods.end()));
  out.paths = read_list(reader, "paths", parse_path,
                        rules.scoped_match ? std::vector<std::string>() : std::vector<std::string>{"/*"});
  if (!rules.scoped_match) return out;
  if (out.methods.empty()) reader.reject("methods", "match.methods must be explicit: the operator requires it");
  if (out.paths.empty()) reader.reject("paths", "match.paths must be explicit: the operator requires it");
  if (std::ranges::find(out.paths, "/*") != out.paths.end()) {
    reader.reject("paths", "match.paths must not contain /*: the operator requires narrower ones");
  }
  return out;
}

std::string read_credential_name(ObjectReader& reader) {
  std::string out(trimmed(reader.optional_string("credential").value_or("")));
  if (out.empty()) reader.reject("credential", "required");
  return out;
}

Substitution read_substitution(ObjectReader& reader) {
  reader.refuse_unknown({"credential", "placeholder", "in"});
  Substitution out;
  out.credential = read_credential_name(reader);
  out.placeholder = reader.optional_string("placeholder").value_or("");
  if (trimmed(out.placeholder).empty()) reader.reject("placeholder", "a substitution requires placeholder");
  if (out.placeholder.size() > kLongestText) reader.reject("placeholder", "longer than 4096 bytes");
  if (has_control_byte(out.placeholder)) reader.reject("placeholder", "control characters are not allowed");
  for (const std::string& text : reader.string_list("in").value_or(std::vector<std::string>())) {
    const auto found = std::ranges::find(kPlaces, policy::lower(trimmed(text)));
    if (found == kPlaces.end()) {
      reader.reject("in", "unsupported target surface " + in_quotes(text) + ": path, query, header or body");
      return out;
    }
    add_once(out.in, static_cast<Place>(found - kPlaces.begin()));
  }
  if (out.in.empty()) reader.reject("in", "at least one of path, query, header, body");
  return out;
}

void read_substitutions(ObjectReader& reader, Auth& auth) {
  reader.array("substitutions", [&](ObjectReader& each) {
    Substitution read = read_substitution(each);
    if (each.failed()) return;
    for (const Substitution& other : auth.substitutions) {
      for (const Place place : read.in) {
        if (other.placeholder == read.placeholder && other.is_in(place)) {
          each.reject("placeholder", "duplicates placeholder " + in_quotes(read.placeholder) + " on " +
                                         std::string(to_string(place)) + " surface");
        }
      }
    }
    auth.substitutions.push_back(std::move(read));
  });
  if (auth.substitutions.size() > kMostEntries) reader.reject("substitutions", "at most 256 entries");
}

std::string read_header_name(ObjectReader& reader) {
  auto name = parse_header_name(reader.optional_string("name").value_or(""));
  if (!name) reader.reject("name", name.error().message);
  return name.value_or("");
}

void read_custom_headers(ObjectReader& reader, Auth& auth) {
  reader.array("headers", [&](ObjectReader& each) {
    each.refuse_unknown({"name", "credential"});
    Auth::Header header{read_header_name(each), read_credential_name(each)};
    if (std::ranges::find(auth.headers, header.name, &Auth::Header::name) != auth.headers.end()) {
      each.reject("name", "duplicate custom header name " + header.name);
    }
    auth.headers.push_back(std::move(header));
  });
  if (auth.headers.empty()) reader.reject("headers", "at least one header is required");
  if (auth.headers.size() > kMostEntries) reader.reject("headers", "at most 256 entries");
}

bool is_given(const ObjectReader& reader, std::string_view field) {
  const json::value* value = reader.find(field);
  if (value == nullptr) return false;
  if (const json::string* text = value->if_string()) return !trimmed({text->data(), text->size()}).empty();
  if (const json::array* list = value->if_array()) return !list->empty();
  return true;
}

Auth read_auth(ObjectReader& reader) {
  reader.refuse_unknown({"type", "credential", "name", "headers", "substitutions"});
  Auth out;
  const std::string type(trimmed(reader.optional_string("type").value_or("")));
  const auto known = std::ranges::find(kAuthTypes, type);
  if (known == kAuthTypes.end()) {
    reader.reject("type", "expected one of bearer, basic, apiKey, customHeaders, passthrough");
    return out;
  }
  out.type = static_cast<AuthType>(known - kAuthTypes.begin());
  switch (out.type) {
    case AuthType::Bearer:
    case AuthType::Basic:
      out.headers.push_back({"Authorization", read_credential_name(reader)});
      break;
    case AuthType::ApiKey: {
      std::string name = read_header_name(reader);
      out.headers.push_back({std::move(name), read_credential_name(reader)});
      break;
    }
    case AuthType::CustomHeaders:
      read_custom_headers(reader, out);
      break;
    case AuthType::Passthrough:
      for (const std::string_view field : {"credential", "name", "headers"}) {
        if (is_given(reader, field)) reader.reject(field, "passthrough does not accept " + std::string(field));
      }
      break;
  }
  read_substitutions(reader, out);
  return out;
}

json::array to_array(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& each : list) out.emplace_back(each);
  return out;
}

json::object to_json(const Match& match) {
  json::array ports;
  for (const std::uint16_t port : match.ports()) ports.emplace_back(std::int64_t{port});
  return {{"schemes", to_array(match.schemes)},
          {"ports", std::move(ports)},
          {"hosts", to_array(match.hosts)},
          {"methods", to_array(match.methods)},
          {"paths", to_array(match.paths)}};
}

}  // namespace

std::string_view to_string(AuthType type) { return kAuthTypes[static_cast<std::size_t>(type)]; }
std::string_view to_string(Place place) { return kPlaces[static_cast<std::size_t>(place)]; }

std::vector<std::uint16_t> Match::ports() const {
  std::vector<std::uint16_t> out;
  for (const std::string& scheme : schemes) out.push_back(scheme == "http" ? 80 : 443);
  return out;
}

bool Substitution::is_in(Place place) const { return std::ranges::find(in, place) != in.end(); }

std::vector<std::string> Binding::credentials() const {
  std::vector<std::string> out;
  for (const Auth::Header& each : auth.headers) add_once(out, each.credential);
  for (const Substitution& each : auth.substitutions) add_once(out, each.credential);
  return out;
}

Binding read_binding(ObjectReader& reader, const BindingRules& rules) {
  reader.refuse_unknown({"name", "match", "auth"});
  Binding out;
  out.name = trimmed(reader.optional_string("name").value_or(""));
  if (out.name.empty()) reader.reject("name", "required");
  if (out.name.size() > kLongestText || has_control_byte(out.name)) {
    reader.reject("name", "at most 4096 bytes without control characters");
  }
  if (!reader.object("match", [&](ObjectReader& match) { out.match = read_match(match, rules); })) {
    reader.reject("match", "required");
  }
  if (!reader.object("auth", [&](ObjectReader& auth) { out.auth = read_auth(auth); }))
    reader.reject("auth", "required");
  return out;
}

json::object to_json(const Binding& binding, std::uint64_t revision) {
  json::object auth{{"type", to_string(binding.auth.type)}};
  if (binding.auth.type == AuthType::ApiKey) auth["name"] = binding.auth.headers.front().name;
  return {{"name", binding.name},
          {"revision", static_cast<std::int64_t>(revision)},
          {"match", to_json(binding.match)},
          {"auth", std::move(auth)}};
}

json::object to_stored_json(const Binding& binding) {
  const Auth& auth = binding.auth;
  json::object out{{"type", to_string(auth.type)}};
  if (auth.type == AuthType::CustomHeaders) {
    json::array headers;
    for (const auto& each : auth.headers) {
      headers.push_back(json::object{{"name", each.name}, {"credential", each.credential}});
    }
    out["headers"] = std::move(headers);
  } else if (auth.type != AuthType::Passthrough) {
    out["credential"] = auth.headers.front().credential;
    if (auth.type == AuthType::ApiKey) out["name"] = auth.headers.front().name;
  }
  json::array substitutions;
  for (const Substitution& each : auth.substitutions) {
    json::array in;
    for (const Place place : each.in) in.emplace_back(to_string(place));
    substitutions.push_back(
        json::object{{"credential", each.credential}, {"placeholder", each.placeholder}, {"in", std::move(in)}});
  }
  if (!substitutions.empty()) out["substitutions"] = std::move(substitutions);
  return {{"name", binding.name}, {"match", to_json(binding.match)}, {"auth", std::move(out)}};
}

}  // namespace osb::vault
