// Credentials of a sandbox. A model sees names, hosts and uses; no tool takes or returns a secret.

#include <algorithm>

#include "mcp/schema.h"
#include "mcp/tools/tools.h"

namespace osb::mcp::tools {
namespace {

constexpr std::string_view kFeature = "A credential vault";
constexpr std::int64_t kMostLines = 100;

json::array to_array(const std::vector<std::string>& texts) { return json::array(texts.begin(), texts.end()); }

ToolResult answer(const opensandbox::Result<opensandbox::CredentialVaultState>& state) {
  if (!state) return unless_offered(state.error(), kFeature);
  json::array credentials, bindings;
  for (const auto& each : state->credentials) {
    credentials.push_back(json::object{{"name", each.name},
                                       {"source", each.source_type},
                                       {"entry", or_null(each.entry)},
                                       {"hosts", to_array(each.hosts)}});
  }
  for (const auto& each : state->bindings) {
    bindings.push_back(json::object{{"name", each.name},
                                    {"hosts", to_array(each.match.hosts)},
                                    {"methods", to_array(each.match.methods)},
                                    {"paths", to_array(each.match.paths)},
                                    {"type", each.auth_type}});
  }
  return json::object{{"available", true},
                      {"revision", state->revision},
                      {"credentials", std::move(credentials)},
                      {"bindings", std::move(bindings)}};
}

net::awaitable<ToolResult> credential_list(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  co_return answer(co_await sandbox->credential_vault().get());
}

net::awaitable<ToolResult> credential_bind(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  opensandbox::CredentialVaultPatch patch;
  const std::string name = call.text("name");
  patch.add_credentials.push_back({.name = name, .value = {}, .entry = call.text("entry")});
  opensandbox::CredentialBinding binding;
  binding.name = name;
  binding.match.hosts = call.texts("hosts");
  binding.match.methods = call.texts("methods");
  binding.match.paths = call.texts("paths");
  binding.auth.type = call.text("type");
  binding.auth.credential = name;
  binding.auth.name = call.text("header");
  patch.add_bindings.push_back(binding);
  auto state = co_await sandbox->credential_vault().patch(patch);
  // The first one makes the vault.
  if (!state && state.error().not_found()) {
    state = co_await sandbox->credential_vault().create(patch.add_credentials, patch.add_bindings);
  }
  co_return answer(state);
}

net::awaitable<ToolResult> credential_audit(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const auto lines = co_await sandbox->credential_vault().audit();
  if (!lines) co_return unless_offered(lines.error(), kFeature);
  const std::size_t wanted = static_cast<std::size_t>(call.integer("limit"));
  json::array out;
  for (std::size_t i = lines->size() - std::min(wanted, lines->size()); i < lines->size(); ++i) {
    const auto& each = (*lines)[i];
    out.push_back(json::object{{"time", each.time},
                               {"operation", each.operation},
                               {"decision", or_null(each.decision)},
                               {"binding", or_null(each.binding)},
                               {"host", or_null(each.host)},
                               {"method", or_null(each.method)},
                               {"status_code", each.status_code}});
  }
  co_return json::object{{"available", true}, {"lines", std::move(out)}};
}

}  // namespace

std::vector<Tool> credential_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object text = schema::nullable(schema::string(""));
  const json::object texts = schema::string_list("");
  const json::object available = schema::boolean("false: this sandbox has no credential vault.");
  const json::object credential =
      schema::object({{"name", schema::string("")}, {"source", schema::string("")}, {"entry", text}, {"hosts", texts}});
  const json::object binding = schema::object({{"name", schema::string("")},
                                               {"hosts", texts},
                                               {"methods", texts},
                                               {"paths", texts},
                                               {"type", schema::string("")}});
  const json::object shape = schema::object({{"available", available},
                                             {"code", text},
                                             {"message", text},
                                             {"revision", schema::nullable(schema::integer(""))},
                                             {"credentials", schema::nullable(schema::list_of(credential, ""))},
                                             {"bindings", schema::nullable(schema::list_of(binding, ""))}});
  const json::object line = schema::object({{"time", schema::string("")},
                                            {"operation", schema::string("")},
                                            {"decision", text},
                                            {"binding", text},
                                            {"host", text},
                                            {"method", text},
                                            {"status_code", schema::integer("")}});
  return {
      {.name = "credential_list",
       .title = "Show which secrets a sandbox may use",
       .description = "Names and hosts of the credentials that are added to a sandbox's requests on their way out. "
                      "Secrets cannot be read.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id}, {"connect_if_missing", connect}}),
       .output = shape,
       .run = credential_list},
      {.name = "credential_bind",
       .title = "Let a sandbox use a secret of the operator",
       .description = "Requests of the sandbox to these hosts get the secret of an entry that the server's operator "
                      "keeps. The sandbox needs a network_policy and the credential proxy.",
       .input = schema::arguments(
           {{"sandbox_id", id},
            {"name", schema::string("Of the credential and its binding.")},
            {"entry", schema::string("The operator's name of the secret.")},
            {"hosts", schema::string_list("")},
            {"type", schema::with_default(schema::one_of({"bearer", "basic", "apiKey"}, ""), "bearer")},
            {"header", schema::nullable(schema::string("For apiKey: the header's name."))},
            {"methods", schema::nullable(texts)},
            {"paths", schema::nullable(schema::string_list("Paths, or prefixes that end with *."))},
            {"connect_if_missing", connect}}),
       .output = shape,
       .run = credential_bind},
      {.name = "credential_audit",
       .title = "Show uses of secrets",
       .description = "The last uses and changes of a sandbox's credentials.",
       .hints = {.read_only = true},
       .input = schema::arguments(
           {{"sandbox_id", id},
            {"limit", schema::with_default(schema::at_most(schema::at_least(schema::integer(""), 1), kMostLines), 20)},
            {"connect_if_missing", connect}}),
       .output = schema::object({{"available", available},
                                 {"code", text},
                                 {"message", text},
                                 {"lines", schema::nullable(schema::list_of(line, ""))}}),
       .run = credential_audit},
  };
}

}  // namespace osb::mcp::tools
