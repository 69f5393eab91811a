#include "vault/injector.h"

#include <algorithm>

#include "policy/text.h"
#include "vault/forms.h"
#include "vault/match.h"
#include "vault/path.h"

namespace osb::vault {
namespace {

constexpr int kForbidden = 403, kBadGateway = 502;

struct Target {
  std::string_view path, query;
  bool has_query = false;
};

Target split(std::string_view target) {
  const auto mark = target.find('?');
  if (mark == std::string_view::npos) return {target, {}, false};
  return {target.substr(0, mark), target.substr(mark + 1), true};
}

Decision refuse(Decision out, Outcome outcome, int status, std::string message) {
  out.outcome = outcome;
  out.status = status;
  out.message = std::move(message) + "\n";
  return out;
}

const std::string* pattern_of(const Injector::Rendered& rendered, std::string_view path) {
  const auto found =
      std::ranges::find_if(rendered.patterns, [&](const std::string& each) { return path_matches(each, path); });
  return found == rendered.patterns.end() ? nullptr : &*found;
}

std::vector<const Injector::Rendered*> with_path(const std::vector<const Injector::Rendered*>& candidates,
                                                 std::string_view path) {
  std::vector<const Injector::Rendered*> out;
  for (const auto* each : candidates) {
    if (pattern_of(*each, path) != nullptr) out.push_back(each);
  }
  return out;
}

void add_word(std::string& list, std::string_view word) {
  if (!list.empty()) list += ",";
  list += word;
}

using Encode = SecretText (*)(std::string_view);
SecretText as_it_is(std::string_view value) { return SecretText(value); }

Replacements replacements(const Injector::Rendered& rendered, Place place, Encode encode) {
  std::vector<Replacement> list;
  const auto& substitutions = rendered.binding.auth.substitutions;
  for (std::size_t i = 0; i < substitutions.size(); ++i) {
    if (!substitutions[i].is_in(place)) continue;
    const std::string_view value = rendered.substitutions[i].view();
    list.push_back({SecretText(substitutions[i].placeholder), encode(value)});
    if (place != Place::Path && place != Place::Query) continue;
    // Clients escape some bytes of a placeholder such as {TOKEN}.
    SecretText escaped = percent_encoded(substitutions[i].placeholder);
    if (escaped.view() != substitutions[i].placeholder) list.push_back({std::move(escaped), encode(value)});
  }
  return Replacements(std::move(list));
}

std::string_view header_of(const RequestHead& request, std::string_view lower_name) {
  for (const HeaderView& each : request.headers) {
    if (policy::lower(each.name) == lower_name) return each.value;
  }
  return {};
}

// How a secret is written into a body of this type; nullptr where bodies are not looked at.
Encode body_encoding(const RequestHead& request) {
  const std::string coding = policy::lower(policy::trimmed(header_of(request, "content-encoding")));
  if (!coding.empty() && coding != "identity") return nullptr;
  const std::string_view field = header_of(request, "content-type");
  const std::string type = policy::lower(policy::trimmed(field.substr(0, field.find(';'))));
  if (type.starts_with("multipart/")) return nullptr;
  if (type == "application/json" || type.ends_with("+json")) return json_escaped;
  if (type == "application/x-www-form-urlencoded") return form_encoded;
  return as_it_is;
}

void substitute_headers(const Injector::Rendered& rendered, const RequestHead& request, Decision& out) {
  const Replacements in_headers = replacements(rendered, Place::Header, as_it_is);
  if (in_headers.empty()) return;
  std::vector<std::string> changed;
  for (const HeaderView& each : request.headers) {
    const std::string name = policy::lower(each.name);
    const bool set =
        std::ranges::any_of(out.headers, [&](const auto& edit) { return policy::lower(edit.name) == name; });
    if (!set && !is_reserved_header(name) && in_headers.occurs_in(each.value)) changed.push_back(name);
  }
  for (const HeaderView& each : request.headers) {
    if (std::ranges::find(changed, policy::lower(each.name)) == changed.end()) continue;
    out.headers.push_back({std::string(each.name), in_headers.apply(each.value)});
  }
  if (!changed.empty()) add_word(out.substituted, to_string(Place::Header));
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::Injected:
      return "injected";
    case Outcome::Denied:
      return "denied";
    case Outcome::AmbiguousMatch:
      return "ambiguous_match";
    case Outcome::SourceError:
      return "source_error";
    case Outcome::NoMatch:
      break;
  }
  return "no_match";
}

Injector::Injector(std::uint64_t revision, std::vector<Rendered> bindings, ReplacementsPtr redactions,
                   const Clock& clock)
    : revision_(revision), bindings_(std::move(bindings)), redactions_(std::move(redactions)), clock_(clock) {
  for (Rendered& each : bindings_) {
    each.patterns.clear();
    for (const std::string& path : each.binding.match.paths) each.patterns.push_back(read_path(path).normal);
  }
}

bool Injector::binds(std::string_view scheme, std::string_view host) const {
  return std::ranges::any_of(bindings_, [&](const Rendered& each) {
    const Match& match = each.binding.match;
    return host_precedence(match, host) > 0 && std::ranges::find(match.schemes, scheme) != match.schemes.end();
  });
}

// The path is left out.
std::vector<const Injector::Rendered*> Injector::candidates(const RequestHead& request) const {
  std::vector<const Rendered*> out;
  if (request.port != (request.scheme == "http" ? 80 : 443)) return out;
  for (const Rendered& each : bindings_) {
    const Match& match = each.binding.match;
    const auto same_method = [&](const std::string& method) {
      return policy::lower(method) == policy::lower(request.method);
    };
    if (host_precedence(match, request.host) > 0 &&
        std::ranges::find(match.schemes, request.scheme) != match.schemes.end() &&
        std::ranges::any_of(match.methods, same_method)) {
      out.push_back(&each);
    }
  }
  return out;
}

Decision Injector::decide(const RequestHead& request) const {
  Decision out{.revision = revision_};
  const auto possible = candidates(request);
  if (possible.empty()) return out;
  const RequestPath path = read_path(split(request.target).path);
  auto matching = with_path(possible, path.normal);
  if (matching.empty()) return out;
  const auto precedence = [&](const Rendered* each) { return host_precedence(each->binding.match, request.host); };
  const int highest = precedence(*std::ranges::max_element(matching, {}, precedence));
  std::erase_if(matching, [&](const Rendered* each) { return precedence(each) < highest; });
  if (matching.size() > 1) return refuse(out, Outcome::AmbiguousMatch, kForbidden, "credential binding ambiguous");
  const Rendered& chosen = *matching.front();
  out.binding = chosen.binding.name;
  out.source_type = chosen.source_type;
  out.path_pattern = *pattern_of(chosen, path.normal);
  // An escaped slash is good as long as it changes nothing about the bindings that match.
  if (path.ambiguous || with_path(possible, path.normal) != with_path(possible, path.decoded)) {
    return refuse(std::move(out), Outcome::Denied, kForbidden, "request path contains ambiguous segments");
  }
  if (!request.verified) {
    std::string why =
        "credential binding " + out.binding + ": the destination is not proven to be " + std::string(request.host);
    if (!request.unverified_because.empty()) why += ": " + std::string(request.unverified_because);
    return refuse(std::move(out), Outcome::Denied, kBadGateway, std::move(why));
  }
  if (!chosen.filled) {
    std::string why = "credential binding " + out.binding +
                      " has no value: the vault was lost in a restart; fill it again with PATCH /credential-vault";
    return refuse(std::move(out), Outcome::SourceError, kBadGateway, std::move(why));
  }
  if (chosen.expires && clock_.now() >= *chosen.expires) {
    std::string why = "credential binding " + out.binding + ": the value of the operator's entry " +
                      chosen.expiring_entry + " has expired, and the server has fetched no new one";
    return refuse(std::move(out), Outcome::SourceError, kBadGateway, std::move(why));
  }
  return inject(chosen, request, std::move(out));
}

Decision Injector::inject(const Rendered& rendered, const RequestHead& request, Decision out) const {
  const auto& headers = rendered.binding.auth.headers;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    SecretText value(rendered.prefix);
    value.append(rendered.headers[i].view());
    out.headers.push_back({headers[i].name, std::move(value)});
    add_word(out.header_names, headers[i].name);
  }
  const Target target = split(request.target);
  const Replacements in_path = replacements(rendered, Place::Path, percent_encoded);
  const Replacements in_query = replacements(rendered, Place::Query, percent_encoded);
  const bool path_changes = in_path.occurs_in(target.path), query_changes = in_query.occurs_in(target.query);
  if (path_changes || query_changes) {
    SecretText changed = in_path.apply(target.path);
    if (path_changes && read_path(changed.view()).ambiguous) {
      return refuse(std::move(out), Outcome::Denied, kForbidden,
                    "request path contains ambiguous substituted segments");
    }
    if (target.has_query) changed.append('?');
    changed.append(in_query.apply(target.query).view());
    out.target = std::move(changed);
    if (path_changes) add_word(out.substituted, to_string(Place::Path));
    if (query_changes) add_word(out.substituted, to_string(Place::Query));
  }
  substitute_headers(rendered, request, out);
  if (const Encode encode = body_encoding(request); encode != nullptr) {
    auto in_body = std::make_shared<const Replacements>(replacements(rendered, Place::Body, encode));
    if (!in_body->empty()) out.body = std::move(in_body);
  }
  out.redactions = redactions_;
  out.outcome = Outcome::Injected;
  return out;
}

}  // namespace osb::vault
