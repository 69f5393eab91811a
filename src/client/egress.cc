#include <algorithm>
#include <opensandbox/async.h>

#include "client/errors.h"
#include "client/json.h"
#include "client/network_policy.h"
#include "client/sandbox_state.h"
#include "client/server_call.h"

namespace opensandbox::async {
namespace {

Task<Reply> call_egress(SandboxPtr sandbox, Call call) {
  auto peer = co_await sandbox->egress();
  if (!peer) co_return Failure(std::move(peer.error()));
  auto reply = co_await sandbox->wire()->call(std::move(*peer), std::move(call));
  if (!reply && reply.error().kind == ErrorKind::Network) sandbox->forget();
  co_return reply;
}

// The answer's object and the text it came as.
struct Answer {
  json::value value;
  std::string text;
  std::string request_id;
  const json::object& object() const { return value.get_object(); }
};

Result<Answer> parsed(Result<Reply> reply) {
  if (!reply) return Failure(std::move(reply.error()));
  auto value = parse_answer(reply->body, reply->request_id);
  if (!value) return Failure(std::move(value.error()));
  if (!value->is_object()) return invalid_response("the answer is no JSON object", reply->request_id);
  return Answer{std::move(*value), std::move(reply->body), std::move(reply->request_id)};
}

Task<Answer> ask(SandboxPtr sandbox, Call call) {
  co_return parsed(co_await call_egress(std::move(sandbox), std::move(call)));
}

Task<Answer> ask_server(SandboxPtr sandbox, std::string_view rest, Call call) {
  call.target = sandbox_target(sandbox->id(), rest);
  co_return parsed(co_await sandbox->wire()->call(sandbox->wire()->server, std::move(call)));
}

// --- policy

// The answer to a change need not have the policy.
enum class Wants { Policy, Outcome };

Task<EgressPolicy> policy(SandboxPtr sandbox, Call call, Wants wants) {
  auto answer = co_await ask(std::move(sandbox), std::move(call));
  if (!answer) co_return Failure(std::move(answer.error()));
  const auto& object = answer->object();
  const auto* rules = object_of(object, "policy");
  if (rules == nullptr && wants == Wants::Policy) {
    co_return invalid_response("the answer has no policy", answer->request_id);
  }
  EgressPolicy out;
  out.status = text_of(object, "status");
  out.mode = text_of(object, "mode");
  out.enforcement_mode = text_of(object, "enforcementMode");
  out.reason = text_of(object, "reason");
  if (rules != nullptr) out.policy = policy_from(*rules);
  out.json = std::move(answer->text);
  co_return out;
}

// --- credential vault

CredentialMetadata credential_from(const json::object& object) {
  return {.name = text_of(object, "name"),
          .source_type = text_of(object, "sourceType"),
          .revision = int_of(object, "revision").value_or(0),
          .entry = text_of(object, "entry"),
          .hosts = texts_of(object, "hosts"),
          .expires_at = text_of(object, "expiresAt")};
}

CredentialBindingMetadata binding_from(const json::object& object) {
  CredentialBindingMetadata out;
  out.name = text_of(object, "name");
  out.revision = int_of(object, "revision").value_or(0);
  if (const auto* match = object_of(object, "match")) {
    out.match.hosts = texts_of(*match, "hosts");
    out.match.schemes = texts_of(*match, "schemes");
    out.match.methods = texts_of(*match, "methods");
    out.match.paths = texts_of(*match, "paths");
    if (const auto* ports = array_of(*match, "ports")) {
      for (const auto& port : *ports) {
        if (port.is_int64()) out.match.ports.push_back(static_cast<int>(port.get_int64()));
      }
    }
  }
  if (const auto* auth = object_of(object, "auth")) {
    out.auth_type = text_of(*auth, "type");
    out.auth_name = text_of(*auth, "name");
  }
  return out;
}

template <typename T>
std::vector<T> all_from(const json::object& object, std::string_view key, T (*from)(const json::object&)) {
  std::vector<T> out;
  if (const auto* array = array_of(object, key)) {
    for (const auto& item : *array) {
      if (const auto* entry = item.if_object()) out.push_back(from(*entry));
    }
  }
  return out;
}

// The receiver of a call: the sidecar, or the server, which fetches values of the operator's entries for it.
enum class Through { Sidecar, Server };

Through way_for(const std::vector<Credential>& a, const std::vector<Credential>& b = {}) {
  const auto named = [](const Credential& each) { return !each.entry.empty(); };
  return std::ranges::any_of(a, named) || std::ranges::any_of(b, named) ? Through::Server : Through::Sidecar;
}

Task<CredentialVaultState> vault(SandboxPtr sandbox, Call call, Through through = Through::Sidecar) {
  auto answer = through == Through::Server
                    ? co_await ask_server(std::move(sandbox), "/credential-vault", std::move(call))
                    : co_await ask(std::move(sandbox), std::move(call));
  if (!answer) co_return Failure(std::move(answer.error()));
  CredentialVaultState out;
  out.revision = int_of(answer->object(), "revision").value_or(0);
  out.credentials = all_from(answer->object(), "credentials", credential_from);
  out.bindings = all_from(answer->object(), "bindings", binding_from);
  out.missing_values = texts_of(answer->object(), "missingValues");
  out.json = std::move(answer->text);
  co_return out;
}

template <typename T>
Task<std::vector<T>> vault_list(SandboxPtr sandbox, std::string what, T (*from)(const json::object&)) {
  auto answer = co_await ask(std::move(sandbox), {.target = "/credential-vault/" + what});
  if (!answer) co_return Failure(std::move(answer.error()));
  co_return all_from(answer->object(), what, from);
}

template <typename T>
Task<T> vault_item(SandboxPtr sandbox, std::string target, T (*from)(const json::object&)) {
  auto answer = co_await ask(std::move(sandbox), {.target = std::move(target)});
  if (!answer) co_return Failure(std::move(answer.error()));
  co_return from(answer->object());
}

Task<void> drop_vault(SandboxPtr sandbox) {
  auto reply = co_await call_egress(std::move(sandbox), {.method = "DELETE", .target = "/credential-vault"});
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return Result<void>();
}

json::array encode_credentials(const std::vector<Credential>& credentials) {
  json::array out;
  for (const auto& one : credentials) {
    const json::object source = one.entry.empty() ? json::object{{"type", "inline"}, {"value", one.value}}
                                                  : json::object{{"type", "operator"}, {"entry", one.entry}};
    out.push_back(json::object{{"name", one.name}, {"source", source}});
  }
  return out;
}

json::array encode_bindings(const std::vector<CredentialBinding>& bindings) {
  json::array out;
  for (const auto& one : bindings) {
    json::object match{{"hosts", to_json(one.match.hosts)}};
    if (!one.match.schemes.empty()) match["schemes"] = to_json(one.match.schemes);
    if (!one.match.methods.empty()) match["methods"] = to_json(one.match.methods);
    if (!one.match.paths.empty()) match["paths"] = to_json(one.match.paths);
    if (!one.match.ports.empty()) match["ports"] = json::array(one.match.ports.begin(), one.match.ports.end());
    json::object auth{{"type", one.auth.type}};
    if (!one.auth.credential.empty()) auth["credential"] = one.auth.credential;
    if (!one.auth.name.empty()) auth["name"] = one.auth.name;
    if (!one.auth.headers.empty()) {
      json::array headers;
      for (const auto& header : one.auth.headers) {
        headers.push_back(json::object{{"name", header.name}, {"credential", header.credential}});
      }
      auth["headers"] = std::move(headers);
    }
    if (!one.auth.substitutions.empty()) {
      json::array substitutions;
      for (const auto& each : one.auth.substitutions) {
        substitutions.push_back(
            json::object{{"credential", each.credential}, {"placeholder", each.placeholder}, {"in", to_json(each.in)}});
      }
      auth["substitutions"] = std::move(substitutions);
    }
    out.push_back(json::object{{"name", one.name}, {"match", std::move(match)}, {"auth", std::move(auth)}});
  }
  return out;
}

json::object changes(json::array add, json::array replace, const std::vector<std::string>& remove) {
  json::object out;
  if (!add.empty()) out["add"] = std::move(add);
  if (!replace.empty()) out["replace"] = std::move(replace);
  if (!remove.empty()) out["delete"] = to_json(remove);
  return out;
}

}  // namespace

Task<EgressPolicy> Egress::get() const { return policy(sandbox_, {.target = "/policy"}, Wants::Policy); }

Task<EgressPolicy> Egress::replace(NetworkPolicy wanted) const {
  return policy(sandbox_, json_call("PUT", "/policy", json::serialize(encode_policy(wanted))), Wants::Outcome);
}

Task<EgressPolicy> Egress::patch(std::vector<NetworkRule> rules) const {
  json::array body;
  for (const auto& rule : rules) body.push_back(encode_rule(rule));
  return policy(sandbox_, json_call("PATCH", "/policy", json::serialize(body)), Wants::Outcome);
}

Task<EgressPolicy> Egress::remove(std::vector<std::string> targets) const {
  return policy(sandbox_, json_call("DELETE", "/policy", json::serialize(to_json(targets))), Wants::Outcome);
}

Task<CredentialVaultState> CredentialVault::create(std::vector<Credential> credentials,
                                                   std::vector<CredentialBinding> bindings) const {
  const json::object body{{"credentials", encode_credentials(credentials)}, {"bindings", encode_bindings(bindings)}};
  return vault(sandbox_, json_call("POST", "/credential-vault", json::serialize(body)), way_for(credentials));
}

Task<CredentialVaultState> CredentialVault::get() const { return vault(sandbox_, {.target = "/credential-vault"}); }

Task<CredentialVaultState> CredentialVault::patch(CredentialVaultPatch patch) const {
  json::object body;
  if (patch.expected_revision) body["expectedRevision"] = *patch.expected_revision;
  auto credentials = changes(encode_credentials(patch.add_credentials), encode_credentials(patch.replace_credentials),
                             patch.delete_credentials);
  if (!credentials.empty()) body["credentials"] = std::move(credentials);
  auto bindings =
      changes(encode_bindings(patch.add_bindings), encode_bindings(patch.replace_bindings), patch.delete_bindings);
  if (!bindings.empty()) body["bindings"] = std::move(bindings);
  return vault(sandbox_, json_call("PATCH", "/credential-vault", json::serialize(body)),
               way_for(patch.add_credentials, patch.replace_credentials));
}

Task<void> CredentialVault::remove() const { return drop_vault(sandbox_); }
Task<std::vector<CredentialMetadata>> CredentialVault::credentials() const {
  return vault_list(sandbox_, "credentials", credential_from);
}
Task<CredentialMetadata> CredentialVault::credential(std::string name) const {
  return vault_item(sandbox_, "/credential-vault/credentials/" + encode(name), credential_from);
}
Task<std::vector<CredentialBindingMetadata>> CredentialVault::bindings() const {
  return vault_list(sandbox_, "bindings", binding_from);
}
Task<CredentialBindingMetadata> CredentialVault::binding(std::string name) const {
  return vault_item(sandbox_, "/credential-vault/bindings/" + encode(name), binding_from);
}

}  // namespace opensandbox::async
