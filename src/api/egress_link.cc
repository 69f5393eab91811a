#include "api/egress_link.h"

#include <array>
#include <limits>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"

namespace osb::api::egress {
namespace {

using Problem = Answer::Problem;

constexpr std::array<std::pair<Problem, std::string_view>, 4> kProblems{{{Problem::Stale, "stale"},
                                                                         {Problem::Refused, "refused"},
                                                                         {Problem::Limit, "limit"},
                                                                         {Problem::Internal, "internal"}}};
constexpr std::int64_t kMaxUint32 = std::numeric_limits<std::uint32_t>::max();

// ---- fields

std::uint64_t number(ObjectReader& r, std::string_view name) {
  return static_cast<std::uint64_t>(r.required_int64(name, 0));
}

std::uint32_t small_number(ObjectReader& r, std::string_view name) {
  return static_cast<std::uint32_t>(r.required_int64(name, 0, kMaxUint32));
}

IpAddress address(ObjectReader& r, std::string_view name) {
  const auto parsed = parse_ip_address(r.required_string(name));
  if (!parsed) r.reject(name, "expected an IP address");
  return parsed.value_or(IpAddress{});
}

boost::json::object policy(ObjectReader& r) {
  const json::value* value = r.find("policy");
  if (value != nullptr && value->is_object()) return value->get_object();
  r.reject("policy", "expected an object");
  return {};
}

std::optional<boost::json::object> vault(ObjectReader& r) {
  const json::value* value = r.find("vault");
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_object()) return value->get_object();
  r.reject("vault", "expected an object");
  return std::nullopt;
}

// ---- one function per message

Hello read_hello(ObjectReader& r) {
  Hello out;
  auto resolvers = r.string_list("resolvers");
  if (!resolvers) r.reject("resolvers", "expected a list of strings");
  out.resolvers = std::move(resolvers).value_or(std::vector<std::string>{});
  out.max_addresses = small_number(r, "maxAddresses");
  out.otlp_endpoint = r.optional_string("otlpEndpoint").value_or("");
  if (const auto interval = r.optional_int64("otlpIntervalMillis", 1)) {
    out.otlp_interval = std::chrono::milliseconds(*interval);
  }
  out.deny_webhook = r.optional_string("denyWebhook").value_or("");
  out.trust = r.optional_string("trust").value_or("");
  out.log_names = r.optional_bool("logNames").value_or(false);
  return out;
}

OverlayTexts read_overlays(ObjectReader& r) {
  // An empty file is an empty string; a missing field would remove an operator's rules by mistake.
  auto deny = r.optional_string("deny");
  auto allow = r.optional_string("allow");
  if (!deny) r.reject("deny", "expected a string");
  if (!allow) r.reject("allow", "expected a string");
  return {std::move(deny).value_or(""), std::move(allow).value_or("")};
}

Interception read_interception(ObjectReader& r) {
  return {r.required_string("authority"),
          r.optional_string("trust").value_or(""),
          r.optional_bool("scrubBodies").value_or(false),
          r.string_list("pins").value_or(std::vector<std::string>{}),
          r.optional_string("proxy").value_or(""),
          r.optional_string("proxyAuthorization").value_or("")};
}

SandboxPolicy read_sandbox(ObjectReader& r) {
  SandboxPolicy out;
  out.id = r.required_string("id");
  out.address = address(r, "address");
  out.revision = number(r, "revision");
  out.policy = policy(r);
  out.token = r.required_string("token");
  out.audit = r.optional_bool("audit").value_or(false);
  out.intercept = r.optional_bool("intercept").value_or(false);
  out.vault = vault(r);
  return out;
}

Answer read_answer(ObjectReader& r) {
  Answer out;
  out.seq = number(r, "seq");
  const bool failed = r.object("error", [&](ObjectReader& error) {
    const std::string code = error.required_string("code");
    for (const auto& [problem, name] : kProblems) {
      if (code == name) out.problem = problem;
    }
    if (out.ok()) error.reject("code", "expected stale, refused, limit or internal");
    out.message = error.optional_string("message").value_or("");
  });
  if (!failed) out.revision = number(r, "revision");
  return out;
}

OpenAddresses read_open(ObjectReader& r) {
  OpenAddresses out;
  out.seq = number(r, "seq");
  out.id = r.required_string("id");
  out.revision = number(r, "revision");
  const bool there = r.array("addresses", [&](ObjectReader& each) {
    out.addresses.push_back(
        {address(each, "address"), small_number(each, "seconds"), each.optional_string("name").value_or("")});
  });
  if (!there) r.reject("addresses", "expected a list");
  return out;
}

SetPolicy read_set_policy(ObjectReader& r) {
  SetPolicy out;
  out.seq = number(r, "seq");
  out.id = r.required_string("id");
  out.revision = number(r, "revision");
  out.policy = policy(r);
  return out;
}

SetVault read_set_vault(ObjectReader& r) {
  SetVault out;
  out.seq = number(r, "seq");
  out.id = r.required_string("id");
  out.vault = vault(r);
  return out;
}

// ---- writers

json::object write(const Hello& m) {
  json::object out{{"type", "hello"},
                   {"resolvers", json::array(m.resolvers.begin(), m.resolvers.end())},
                   {"maxAddresses", m.max_addresses}};
  if (!m.otlp_endpoint.empty()) {
    out["otlpEndpoint"] = m.otlp_endpoint;
    out["otlpIntervalMillis"] = m.otlp_interval.count();
  }
  if (!m.deny_webhook.empty()) out["denyWebhook"] = m.deny_webhook;
  if (!m.trust.empty()) out["trust"] = m.trust;
  if (m.log_names) out["logNames"] = true;
  return out;
}
json::object write(const OverlayTexts& m) { return {{"type", "overlays"}, {"deny", m.deny}, {"allow", m.allow}}; }
json::object write(const Interception& m) {
  json::object out{{"type", "interception"},
                   {"authority", m.authority},
                   {"trust", m.trust},
                   {"scrubBodies", m.scrub_bodies},
                   {"pins", json::array(m.pins.begin(), m.pins.end())}};
  if (!m.proxy.empty()) out["proxy"] = m.proxy;
  if (!m.proxy_authorization.empty()) out["proxyAuthorization"] = m.proxy_authorization;
  return out;
}
json::object write(const SandboxPolicy& m) {
  json::object out{{"type", "sandbox"},
                   {"id", m.id},
                   {"address", format_ip_address(m.address)},
                   {"revision", m.revision},
                   {"policy", m.policy},
                   {"token", m.token},
                   {"audit", m.audit},
                   {"intercept", m.intercept}};
  if (m.vault) out["vault"] = *m.vault;
  return out;
}
json::object write(const SandboxGone& m) { return {{"type", "gone"}, {"id", m.id}}; }
json::object write(const Connection& m) { return {{"type", "connection"}, {"id", m.id}}; }
json::object write(const Answer& m) {
  json::object out{{"type", "answer"}, {"seq", m.seq}};
  if (m.ok()) out["revision"] = m.revision;
  for (const auto& [problem, name] : kProblems) {
    if (m.problem == problem) out["error"] = json::object{{"code", name}, {"message", m.message}};
  }
  return out;
}
json::object write(const Ready&) { return {{"type", "ready"}}; }
json::object write(const OpenAddresses& m) {
  json::array addresses;
  for (const OpenAddress& each : m.addresses) {
    json::object item{{"address", format_ip_address(each.address)}, {"seconds", each.seconds}};
    if (!each.name.empty()) item["name"] = each.name;
    addresses.push_back(std::move(item));
  }
  return {
      {"type", "open"}, {"seq", m.seq}, {"id", m.id}, {"revision", m.revision}, {"addresses", std::move(addresses)}};
}
json::object write(const SetPolicy& m) {
  return {{"type", "set_policy"}, {"seq", m.seq}, {"id", m.id}, {"revision", m.revision}, {"policy", m.policy}};
}

json::object write(const SetVault& m) {
  json::object out{{"type", "set_vault"}, {"seq", m.seq}, {"id", m.id}};
  if (m.vault) out["vault"] = *m.vault;
  return out;
}

template <typename Message>
std::string encode_any(const Message& message) {
  return std::visit([](const auto& each) { return json::serialize(write(each)); }, message);
}

// `read` gives the message of a type, or nothing.
template <typename Message, typename Read>
Result<Message> decode_any(std::string_view text, Read read) {
  const auto value = parse_json(text);
  if (!value) return with_context("egress link", value.error());
  ObjectReader r(*value, {});
  const std::string type = r.required_string("type");
  std::optional<Message> message = read(type, r);
  if (!message) r.reject("type", "unknown");
  if (auto done = r.finish(); !done) return with_context("egress link", done.error());
  return std::move(*message);
}

}  // namespace

std::string encode(const ToEgress& message) { return encode_any(message); }
std::string encode(const ToSandboxd& message) { return encode_any(message); }

Result<ToEgress> decode_to_egress(std::string_view text) {
  return decode_any<ToEgress>(text, [](std::string_view type, ObjectReader& r) -> std::optional<ToEgress> {
    if (type == "hello") return read_hello(r);
    if (type == "overlays") return read_overlays(r);
    if (type == "interception") return read_interception(r);
    if (type == "sandbox") return read_sandbox(r);
    if (type == "gone") return SandboxGone{r.required_string("id")};
    if (type == "connection") return Connection{r.required_string("id")};
    if (type == "answer") return read_answer(r);
    return std::nullopt;
  });
}

Result<ToSandboxd> decode_to_sandboxd(std::string_view text) {
  return decode_any<ToSandboxd>(text, [](std::string_view type, ObjectReader& r) -> std::optional<ToSandboxd> {
    if (type == "ready") return Ready{};
    if (type == "open") return read_open(r);
    if (type == "set_policy") return read_set_policy(r);
    if (type == "set_vault") return read_set_vault(r);
    return std::nullopt;
  });
}

}  // namespace osb::api::egress
