// /policies: the operator's policy templates, compiled, explained and suggested. Nothing here changes anything.

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "base/parse_number.h"
#include "http/url.h"
#include "policy/templates/suggest.h"
#include "server/http/answer.h"
#include "server/http/routes.h"
#include "server/policies/policy_library.h"

namespace osb::server {
namespace {

namespace json = boost::json;
using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

constexpr std::string_view kNotFound = "POLICY::TEMPLATE_NOT_FOUND";
constexpr std::string_view kInvalid = "POLICY::INVALID_TEMPLATE";
constexpr std::size_t kMaxAsked = 100'000;

Response answer(const json::object& body) { return http::json_response(200, json::serialize(body)); }

Response list(const PolicyLibrary& library) {
  json::array items, capabilities;
  for (const auto& [name, compiled] : library.templates()) items.push_back(policy::to_json(compiled, false));
  for (const auto& [name, capability] : library.catalogue().all()) capabilities.push_back(policy::to_json(capability));
  json::object out{{"items", std::move(items)}, {"capabilities", std::move(capabilities)}};
  if (!library.options().default_template.empty()) out["default"] = library.options().default_template;
  return answer(out);
}

Result<const policy::CompiledTemplate*> find(const PolicyLibrary& library, const Request& request) {
  auto found = library.find(request.params["name"]);
  if (!found) return api::refuse(Code::NotFound, kNotFound, found.error().message);
  return found;
}

Response show(const PolicyLibrary& library, const Request& request) {
  const auto found = find(library, request);
  return found ? answer(policy::to_json(**found, true)) : refusal(found.error());
}

Response explain(const PolicyLibrary& library, const Request& request) {
  const auto found = find(library, request);
  if (!found) return refusal(found.error());
  const http::Query query = http::Query::parse(request.query());
  if (query.get("host").empty()) return refusal(api::unprocessable("query/host", "required").error());
  std::optional<std::uint16_t> port;
  if (const std::string_view text = query.get("port"); !text.empty()) {
    port = parse_number<std::uint16_t>(text);
    if (!port || *port == 0) {
      return refusal(api::unprocessable("query/port", "expected a number from 1 to 65535").error());
    }
  }
  const auto told = policy::explain(**found, query.get("host"), port);
  if (!told) return refusal(api::invalid_parameter("query/host", told.error().message).error());
  return answer(policy::to_json(*told, **found));
}

Answer compile(const PolicyLibrary& library, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  const auto value = api::parse_lifecycle_body(*body);
  if (!value) co_return refusal(value.error());
  api::ObjectReader reader(*value, api::kLifecycleReading);
  const auto text = reader.optional_string("template");
  if (!text) reader.reject("template", "required; the text of a template, TOML");
  const std::string source = reader.optional_string("source").value_or("template.toml");
  const auto host = reader.optional_string("host");
  const auto port = reader.optional_int64("port", 1, 65535);
  if (auto done = api::finish_schema(reader); !done) co_return refusal(done.error());
  const auto compiled = library.compile(*text, source);
  if (!compiled) co_return refusal(api::refuse(compiled.error().code, kInvalid, compiled.error().message).error());
  if (!host) co_return answer(policy::to_json(*compiled, true));
  const auto told =
      policy::explain(*compiled, *host, port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt);
  if (!told) co_return refusal(api::invalid_parameter("/host", told.error().message).error());
  json::object out = policy::to_json(*compiled, true);
  out["explanation"] = policy::to_json(*told, *compiled);
  co_return answer(out);
}

json::array encode(const std::vector<policy::Suggestion::Item>& items) {
  json::array out;
  for (const auto& item : items) out.push_back({{"target", item.target}, {"count", item.count}});
  return out;
}

Answer suggest(const PolicyLibrary& library, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  const auto value = api::parse_lifecycle_body(*body);
  if (!value) co_return refusal(value.error());
  api::ObjectReader reader(*value, api::kLifecycleReading);
  const std::string name = reader.optional_string("name").value_or("suggested");
  if (!policy::is_policy_name(name)) reader.reject("name", policy::kPolicyNameRule);
  std::vector<policy::Asked> asked;
  const bool given = reader.array("asked", [&](api::ObjectReader& item) {
    asked.push_back(
        {item.required_string("host"), static_cast<std::uint64_t>(item.optional_int64("count", 0).value_or(1))});
  });
  if (!given) reader.reject("asked", "required");
  if (asked.size() > kMaxAsked) reader.reject("asked", "more than 100000 hosts");
  if (auto done = api::finish_schema(reader); !done) co_return refusal(done.error());
  const policy::Suggestion told = policy::suggest(asked, library.catalogue());
  co_return answer({{"name", name},
                    {"template", told.to_toml(name)},
                    {"capabilities", encode(told.capabilities)},
                    {"rules", encode(told.rules)},
                    {"leftOut", encode(told.left_out)}});
}

using Look = Response (*)(const PolicyLibrary& library, const Request& request);

void add_look(http::Router& router, RouteContext& context, std::string_view pattern, Look look) {
  add_both(router, "GET", pattern,
           [&context, look](Request& request) -> Answer { co_return look(context.policies, request); });
}

}  // namespace

void add_template_routes(http::Router& router, RouteContext& context) {
  add_look(router, context, "/policies", [](const PolicyLibrary& library, const Request&) { return list(library); });
  add_look(router, context, "/policies/{name}", show);
  add_look(router, context, "/policies/{name}/explain", explain);
  add_both(router, "POST", "/policies/compile",
           [&context](Request& request) { return compile(context.policies, request); });
  add_both(router, "POST", "/policies/suggest",
           [&context](Request& request) { return suggest(context.policies, request); });
}

}  // namespace osb::server
