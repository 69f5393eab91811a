#include "vault/vault.h"

#include <algorithm>

#include "base/base64.h"
#include "vault/forms.h"
#include "vault/match.h"

namespace osb::vault {
namespace {

namespace json = api::json;

// JSON numbers that are read back are signed.
std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

Failure unknown(std::string_view what, const std::string& name, std::string_view operation) {
  return fail(Code::InvalidRequest,
              std::string(what) + " " + quoted(name) + " does not exist: nothing to " + std::string(operation));
}

Failure exists(std::string_view what, const std::string& name) {
  return fail(Code::InvalidRequest, std::string(what) + " " + quoted(name) + " exists already; replace it instead");
}

std::string_view prefix_of(AuthType type) {
  switch (type) {
    case AuthType::Bearer:
      return "Bearer ";
    case AuthType::Basic:
      return "Basic ";
    default:
      return "";
  }
}

}  // namespace

Result<Vault> Vault::create(CreateRequest request, const policy::Matcher& policy) {
  Vault out;
  out.revision_ = 1;
  Changes<NewCredential> credentials{.add = std::move(request.credentials)};
  Changes<Binding> bindings{.add = std::move(request.bindings)};
  if (auto done = out.change_credentials(credentials); !done) return Failure(done.error());
  if (auto done = out.change_bindings(bindings); !done) return Failure(done.error());
  if (auto good = out.validate(policy); !good) return Failure(good.error());
  return out;
}

Result<Vault> Vault::patched(PatchRequest request, const policy::Matcher& policy) const {
  if (request.expected_revision && *request.expected_revision != static_cast<std::int64_t>(revision_)) {
    return fail(Code::Conflict, "expected revision " + std::to_string(*request.expected_revision) +
                                    " but the vault is at " + std::to_string(revision_));
  }
  Vault out = *this;
  ++out.revision_;
  if (auto done = out.change_credentials(request.credentials); !done) return Failure(done.error());
  if (auto done = out.change_bindings(request.bindings); !done) return Failure(done.error());
  if (auto good = out.validate(policy); !good) return Failure(good.error());
  return out;
}

Result<void> Vault::change_credentials(Changes<NewCredential>& changes) {
  for (const std::string& name : changes.remove) {
    if (credentials_.erase(name) == 0) return unknown("credential", name, "delete");
  }
  for (NewCredential& each : changes.replace) {
    const auto found = credentials_.find(each.name);
    if (found == credentials_.end()) return unknown("credential", each.name, "replace");
    found->second = {std::move(each.value), revision_, true, std::move(each.source)};
  }
  for (NewCredential& each : changes.add) {
    const bool fresh =
        credentials_.try_emplace(each.name, std::move(each.value), revision_, true, std::move(each.source)).second;
    if (!fresh) return exists("credential", each.name);
  }
  return {};
}

Result<void> Vault::change_bindings(Changes<Binding>& changes) {
  for (const std::string& name : changes.remove) {
    if (bindings_.erase(name) == 0) return unknown("binding", name, "delete");
  }
  for (Binding& each : changes.replace) {
    const auto found = bindings_.find(each.name);
    if (found == bindings_.end()) return unknown("binding", each.name, "replace");
    found->second = std::move(each);
  }
  for (Binding& each : changes.add) {
    const std::string name = each.name;
    if (!bindings_.try_emplace(name, std::move(each)).second) return exists("binding", name);
  }
  return {};
}

Result<void> Vault::validate(const policy::Matcher& policy) const {
  if (credentials_.size() > kMostCredentials) return fail(Code::InvalidRequest, "at most 256 credentials");
  if (bindings_.size() > kMostBindings) return fail(Code::InvalidRequest, "at most 256 bindings");
  for (const auto& [name, binding] : bindings_) {
    for (const std::string& credential : binding.credentials()) {
      const auto found = credentials_.find(credential);
      if (found == credentials_.end()) {
        return fail(Code::InvalidRequest,
                    "binding " + quoted(name) + " needs credential " + quoted(credential) + ", which does not exist");
      }
      for (const std::string& host : binding.match.hosts) {
        if (found->second.source.permits(host)) continue;
        return fail(Code::InvalidRequest, "binding " + quoted(name) + ": the operator's entry " +
                                              quoted(found->second.source.entry) + " may not go to " + host);
      }
    }
  }
  if (auto covered = check_policy(policy); !covered) return covered;
  for (auto a = bindings_.begin(); a != bindings_.end(); ++a) {
    for (auto b = std::next(a); b != bindings_.end(); ++b) {
      if (!clash(a->second.match, b->second.match)) continue;
      return fail(Code::InvalidRequest, "bindings " + quoted(a->first) + " and " + quoted(b->first) +
                                            " are ambiguous: a request could match both");
    }
  }
  return {};
}

Result<void> Vault::check_policy(const policy::Matcher& policy) const {
  for (const auto& [name, binding] : bindings_) {
    if (auto covered = check_coverage(binding, policy); !covered) return covered;
  }
  return {};
}

json::object Vault::show(const std::string& name, const Credential& credential) const {
  json::object out{{"name", name}};
  add_to(out, credential.source);
  out["revision"] = number(credential.revision);
  return out;
}

json::object Vault::credentials() const {
  json::array list;
  for (const auto& [name, each] : credentials_) list.push_back(show(name, each));
  return {{"revision", number(revision_)}, {"credentials", std::move(list)}};
}

json::object Vault::bindings() const {
  json::array list;
  for (const auto& [name, each] : bindings_) list.push_back(to_json(each, revision_));
  return {{"revision", number(revision_)}, {"bindings", std::move(list)}};
}

json::object Vault::state() const {
  json::object out = credentials();
  out["bindings"] = bindings()["bindings"];
  json::array lost;
  for (const std::string& name : to_refill()) lost.emplace_back(name);
  if (!lost.empty()) out["missingValues"] = std::move(lost);
  return out;
}

Result<json::object> Vault::credential(const std::string& name) const {
  const auto found = credentials_.find(name);
  if (found == credentials_.end()) return fail(Code::NotFound, "credential not found");
  return show(name, found->second);
}

Result<json::object> Vault::binding(const std::string& name) const {
  const auto found = bindings_.find(name);
  if (found == bindings_.end()) return fail(Code::NotFound, "credential binding not found");
  return to_json(found->second, revision_);
}

std::vector<std::string> Vault::to_refill() const {
  std::vector<std::string> out;
  for (const auto& [name, each] : credentials_) {
    if (!each.filled) out.push_back(name);
  }
  return out;
}

json::object Vault::to_stored() const {
  json::array list;
  for (const auto& [name, each] : bindings_) list.push_back(to_stored_json(each));
  json::object out = credentials();
  out["bindings"] = std::move(list);
  return out;
}

Result<Vault> Vault::restore(const json::value& stored) {
  Vault out;
  api::ObjectReader reader(stored, {});
  out.revision_ = static_cast<std::uint64_t>(reader.required_int64("revision", 1));
  reader.array("credentials", [&](api::ObjectReader& each) {
    const std::string name = each.required_string("name");
    const auto revision = static_cast<std::uint64_t>(each.required_int64("revision", 1));
    Source source = read_stored_source(each);
    out.credentials_.emplace(
        name, Credential{.value = {}, .revision = revision, .filled = false, .source = std::move(source)});
  });
  reader.array("bindings", [&](api::ObjectReader& each) {
    Binding binding = read_binding(each, {});
    for (const std::string& credential : binding.credentials()) {
      if (!out.credentials_.contains(credential)) each.reject("auth", "a credential is missing");
    }
    const std::string name = binding.name;
    out.bindings_.emplace(name, std::move(binding));
  });
  if (auto ok = reader.finish(); !ok) return with_context("stored vault", ok.error());
  return out;
}

Result<InjectorPtr> Vault::injector(const Clock& clock) const {
  std::vector<Replacement> redactions;
  for (const auto& [name, each] : credentials_) {
    if (each.filled) add_redactions(each.value.view(), redactions);
  }
  std::vector<Injector::Rendered> rendered;
  for (const auto& [name, binding] : bindings_) {
    Injector::Rendered one{.binding = binding, .prefix = prefix_of(binding.auth.type)};
    for (const std::string& needed : binding.credentials()) {
      const Source& source = credentials_.at(needed).source;
      if (!source.is_operators()) continue;
      one.source_type = source.type();
      if (source.expires && (!one.expires || *source.expires < *one.expires)) {
        one.expires = source.expires;
        one.expiring_entry = source.entry;
      }
    }
    for (const auto& header : binding.auth.headers) {
      const Credential& credential = credentials_.at(header.credential);
      one.filled = one.filled && credential.filled;
      one.headers.push_back(credential.value);
      if (!credential.filled || one.prefix.empty()) continue;
      SecretText whole(one.prefix);
      whole.append(credential.value.view());
      redactions.push_back({std::move(whole), SecretText("[REDACTED]")});
      // A server that has understood the field may answer with the password itself.
      if (binding.auth.type != AuthType::Basic) continue;
      if (auto plain = decode_base64(credential.value.view())) {
        add_redactions(*plain, redactions);
        const auto colon = plain->find(':');
        if (colon != std::string::npos && colon + 1 < plain->size()) {
          add_redactions(std::string_view(*plain).substr(colon + 1), redactions);
        }
        wipe(plain->data(), plain->size());
      }
    }
    for (const Substitution& each : binding.auth.substitutions) {
      const Credential& credential = credentials_.at(each.credential);
      one.filled = one.filled && credential.filled;
      one.substitutions.push_back(credential.value);
    }
    rendered.push_back(std::move(one));
  }
  auto locked = Replacements::locked(redactions);
  if (!locked) return Failure(locked.error());
  return std::make_shared<const Injector>(revision_, std::move(rendered), std::move(*locked), clock);
}

}  // namespace osb::vault
