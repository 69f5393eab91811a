#include "server/credentials/credential_supply.h"

#include "api/lifecycle_error.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/ports.h"
#include "credentials/vault_body.h"
#include "server/credentials/secret_body.h"

namespace osb::server {
namespace {

namespace json = api::json;

constexpr std::chrono::seconds kFirstRetry(5), kLastRetry(60);
constexpr std::size_t kAtOnce = 8;  // refreshes
constexpr std::size_t kMostAnswer = 1 << 20;

std::string named(std::string_view what, std::string_view name) {
  return std::string(what) + " \"" + std::string(name) + "\"";
}

double milliseconds(std::chrono::steady_clock::duration took) {
  return std::chrono::duration<double, std::milli>(took).count();
}

// "" where there is none.
std::string text_of(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

const json::object* find_credential(const json::value& list, std::string_view name) {
  const json::value* all = list.is_object() ? list.get_object().if_contains("credentials") : nullptr;
  if (all == nullptr || !all->is_array()) return nullptr;
  for (const json::value& each : all->get_array()) {
    const json::object* one = each.if_object();
    if (one != nullptr && text_of(*one, "name") == name) return one;
  }
  return nullptr;
}

}  // namespace

CredentialSupply::CredentialSupply(net::any_io_executor executor, SandboxService& service, http::Client& proxy,
                                   credentials::Catalogue catalogue, const Clock& clock)
    : service_(service),
      proxy_(proxy),
      catalogue_(std::move(catalogue)),
      clock_(clock),
      turn_(executor),
      tasks_(std::move(executor)) {}

net::awaitable<Result<CredentialSupply::Filled>> CredentialSupply::fill(std::string_view body,
                                                                        const SandboxRecord& sandbox,
                                                                        std::string_view request_id) {
  auto read = credentials::VaultBody::parse(body);
  // The vault says what is wrong with it.
  if (!read || (*read)->named().empty()) co_return Filled{};
  Filled out{.changed = true};
  for (const auto& each : (*read)->named()) {
    const credentials::Entry* found = catalogue_.find(each.entry, sandbox.owner.tenant);
    if (found == nullptr) {
      co_return api::refuse(Code::Forbidden, "CREDENTIALS::NO_ENTRY",
                            named("credential", each.credential) + ": there is no " + named("entry", each.entry) +
                                " of the operator that this sandbox may use");
    }
    const credentials::Entry entry = *found;  // a reload may replace the catalogue meanwhile
    const std::string actor = sandbox.owner.tenant + "/" + sandbox.owner.subject;
    auto fetched = co_await fetch(entry, sandbox.id, each.bindings, actor, std::string(request_id));
    if (!fetched) {
      co_return api::refuse(Code::Unavailable, "CREDENTIALS::SOURCE_FAILED",
                            (each.bindings.empty() ? "" : named("binding", each.bindings) + ": ") +
                                named("credential", each.credential) + ": the operator's " +
                                named("entry", entry.name) +
                                " gave no value, nothing has changed: " + fetched.error().message);
    }
    credentials::VaultBody::fill(each, entry, *fetched);
    if (fetched->refresh_after) out.handed.push_back({each.credential, entry.name, *fetched->refresh_after});
  }
  out.body = (*read)->serialize();
  co_return out;
}

net::awaitable<Result<credentials::Fetched>> CredentialSupply::fetch(const credentials::Entry& entry,
                                                                     std::string sandbox, std::string bindings,
                                                                     std::string actor, std::string request_id) {
  const auto began = clock_.steady_now();
  auto fetched = co_await credentials::fetch(entry, clock_);
  log_info("credential fetched", {{"opensandbox.event", "credential.audit"},
                                  {"operation", "fetch"},
                                  {"decision", fetched ? "fetched" : "source_error"},
                                  {"sandbox_id", sandbox},
                                  {"credential_binding", bindings},
                                  {"credential_entry", entry.name},
                                  {"credential_source_type", entry.provider},
                                  {"actor_id", actor},
                                  {"error", fetched ? "" : fetched.error().message},
                                  {"duration_ms", milliseconds(clock_.steady_now() - began)},
                                  {"request_id", request_id}});
  co_return fetched;
}

void CredentialSupply::keep_fresh(const std::string& sandbox, HandOver handed) {
  for (Supplied& each : handed) watch(sandbox, std::move(each));
}

void CredentialSupply::watch(const std::string& sandbox, Supplied supplied) {
  const std::uint64_t generation = ++last_generation_;
  generations_[{sandbox, supplied.credential}] = generation;
  tasks_.spawn("refresh a credential", refresh_until_gone(sandbox, std::move(supplied), generation));
}

net::awaitable<void> CredentialSupply::refresh_until_gone(std::string sandbox, Supplied supplied,
                                                          std::uint64_t generation) {
  const Key key{sandbox, supplied.credential};
  Backoff retry(kFirstRetry, kLastRetry);
  std::chrono::milliseconds pause = supplied.refresh_after;
  while (co_await sleep_for(pause)) {
    if (!co_await turn_.wait_until([this] { return refreshing_ < kAtOnce; })) co_return;
    if (generations_[key] != generation) co_return;
    ++refreshing_;
    const Refreshed outcome = co_await refresh(sandbox, supplied);
    --refreshing_;
    turn_.notify_one();
    if (outcome.next == Next::Forget) break;
    if (outcome.next == Next::Again) retry.reset();
    pause = outcome.next == Next::Again ? outcome.after : retry.next();
  }
  const auto found = generations_.find(key);
  if (found != generations_.end() && found->second == generation) generations_.erase(found);
}

net::awaitable<CredentialSupply::Refreshed> CredentialSupply::refresh(const std::string& sandbox,
                                                                      const Supplied& supplied) {
  const auto record = service_.get(sandbox, Scope::all());
  if (!record || (*record)->has_ended()) co_return Refreshed{Next::Forget};
  const auto state = co_await ask(**record, "GET", "/credential-vault/credentials", "");
  if (!state || state->status >= 500) co_return Refreshed{Next::Retry};
  const auto list = api::parse_json(state->body);
  const json::object* credential = list ? find_credential(*list, supplied.credential) : nullptr;
  // Deleted, or replaced by the user.
  if (state->status != 200 || credential == nullptr || text_of(*credential, "entry") != supplied.entry) {
    co_return Refreshed{Next::Forget};
  }
  const credentials::Entry* found = catalogue_.find(supplied.entry, (*record)->owner.tenant);
  if (found == nullptr) {
    log_warn("credential not refreshed: the operator has no such entry any more",
             {{"sandbox_id", sandbox}, {"credential_entry", supplied.entry}});
    co_return Refreshed{Next::Forget};
  }
  const credentials::Entry entry = *found;
  const auto fetched = co_await fetch(entry, sandbox, "", "server", "");
  if (!fetched) co_return Refreshed{Next::Retry};
  // The revision: the user may have put another value there meanwhile.
  json::object patch;
  if (const json::value* revision = list->get_object().if_contains("revision")) patch["expectedRevision"] = *revision;
  json::object replaced{{"name", supplied.credential}};
  replaced["source"].emplace_object() = {{"type", "operator"}, {"entry", entry.name}};
  patch["credentials"].emplace_object()["replace"].emplace_array().push_back(std::move(replaced));
  auto body = credentials::VaultBody::parse(json::serialize(patch));
  credentials::VaultBody::fill((*body)->named().front(), entry, *fetched);
  const auto answer = co_await ask(**record, "PATCH", "/credential-vault", (*body)->serialize());
  const bool taken = answer && answer->status == 200;
  log_info("credential refreshed",
           {{"sandbox_id", sandbox}, {"credential_entry", entry.name}, {"status_code", answer ? answer->status : 0}});
  if (!taken) co_return Refreshed{answer && answer->status < 500 && answer->status != 409 ? Next::Forget : Next::Retry};
  if (!fetched->refresh_after) co_return Refreshed{Next::Forget};
  co_return Refreshed{Next::Again, *fetched->refresh_after};
}

net::awaitable<Result<CredentialSupply::Answer>> CredentialSupply::ask(const SandboxRecord& sandbox, std::string method,
                                                                       std::string target, std::string body) {
  const auto held = std::make_shared<SecretBody>(std::move(body));
  const runtime::Instance* instance = service_.instance(sandbox.id);
  if (instance == nullptr || !instance->ports) co_return fail(Code::Unavailable, "the sandbox is not located yet");
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.headers.set(api::kEgressTokenHeader, sandbox.egress_token);
  request.headers.set("Content-Type", "application/json");
  if (held->length() != 0u) request.stream = held;
  request.confidential = true;
  auto response = co_await proxy_.send(instance->ports->route(kEgressPort).origin, std::move(request));
  if (!response) co_return Failure(response.error());
  auto text = co_await response->body->read_all(kMostAnswer);
  if (!text) co_return Failure(text.error());
  co_return Answer{response->status, std::move(*text)};
}

net::awaitable<void> CredentialSupply::recover() {
  if (catalogue_.empty() || !co_await service_.until_backend_reachable()) co_return;
  for (const SandboxPtr& record : service_.store().all()) {
    if (record->egress_token.empty() || !record->spec->credential_proxy || record->has_ended()) continue;
    co_await adopt(record);
  }
}

net::awaitable<void> CredentialSupply::adopt(SandboxPtr sandbox) {
  const auto state = co_await ask(*sandbox, "GET", "/credential-vault/credentials", "");
  if (!state || state->status != 200) co_return;
  const auto list = api::parse_json(state->body);
  const json::value* all = list && list->is_object() ? list->get_object().if_contains("credentials") : nullptr;
  if (all == nullptr || !all->is_array()) co_return;
  for (const json::value& each : all->get_array()) {
    const json::object* credential = each.if_object();
    if (credential == nullptr || text_of(*credential, "entry").empty()) continue;
    const Key key{sandbox->id, text_of(*credential, "name")};
    // At once: it is not known here when the value was fetched.
    if (!generations_.contains(key)) watch(sandbox->id, {key.second, text_of(*credential, "entry")});
  }
}

}  // namespace osb::server
