#include "cli/egress/vault_payload.h"

#include "api/json.h"

namespace osb::cli {
namespace {

using api::ObjectReader;
using Words = std::vector<std::string>;
namespace json = boost::json;

constexpr api::ReadOptions kReading{.snake_case = true};

opensandbox::Credential read_credential(ObjectReader& in) {
  opensandbox::Credential out;
  out.name = in.required_string("name");
  const bool given = in.object("source", [&](ObjectReader& source) {
    const std::string type = source.optional_string("type").value_or("inline");
    if (type == "operator") {
      out.entry = source.required_string("entry");
    } else {
      if (type != "inline") source.reject("type", "must be inline or operator");
      out.value = source.required_string("value");
    }
  });
  if (!given) in.reject("source", "is required");
  return out;
}

opensandbox::CredentialBinding read_binding(ObjectReader& in) {
  opensandbox::CredentialBinding out;
  out.name = in.required_string("name");
  const bool matched = in.object("match", [&](ObjectReader& match) {
    out.match.hosts = match.string_list("hosts").value_or(Words());
    out.match.schemes = match.string_list("schemes").value_or(Words());
    out.match.methods = match.string_list("methods").value_or(Words());
    out.match.paths = match.string_list("paths").value_or(Words());
    const json::value* ports = match.find("ports");
    if (ports != nullptr && !ports->is_array()) match.reject("ports", "must be a list");
    if (ports == nullptr || !ports->is_array()) return;
    for (const json::value& port : ports->get_array()) {
      const std::int64_t* number = port.if_int64();
      if (number == nullptr || *number < 1 || *number > 65535) {
        match.reject("ports", "must be numbers from 1 to 65535");
      } else {
        out.match.ports.push_back(static_cast<int>(*number));
      }
    }
  });
  const bool authorized = in.object("auth", [&](ObjectReader& auth) {
    out.auth.type = auth.required_string("type");
    out.auth.credential = auth.optional_string("credential").value_or("");
    out.auth.name = auth.optional_string("name").value_or("");
    auth.array("headers", [&](ObjectReader& header) {
      out.auth.headers.push_back({header.required_string("name"), header.required_string("credential")});
    });
    auth.array("substitutions", [&](ObjectReader& each) {
      out.auth.substitutions.push_back({each.required_string("credential"), each.required_string("placeholder"),
                                        each.string_list("in").value_or(Words())});
    });
  });
  if (!matched) in.reject("match", "is required");
  if (!authorized) in.reject("auth", "is required");
  return out;
}

std::unexpected<Problem> wrong(const Error& error) {
  return invalid("The credential vault payload is wrong: " + error.message + ".");
}

}  // namespace

Expected<VaultContents> parse_vault_create(const json::value& payload) {
  if (!payload.is_object()) return invalid("Credential vault payload must be a JSON/YAML object.");
  for (const char* key : {"credentials", "bindings"}) {
    const json::value* found = payload.get_object().if_contains(key);
    if (found == nullptr || !found->is_array()) {
      return invalid("Credential vault payload field '" + std::string(key) + "' must be a list.");
    }
  }
  VaultContents out;
  ObjectReader in(payload, kReading);
  in.array("credentials", [&](ObjectReader& one) { out.credentials.push_back(read_credential(one)); });
  in.array("bindings", [&](ObjectReader& one) { out.bindings.push_back(read_binding(one)); });
  if (auto done = in.finish(); !done) return wrong(done.error());
  return out;
}

Expected<opensandbox::CredentialVaultPatch> parse_vault_patch(const json::value& payload) {
  if (!payload.is_object()) return invalid("Credential vault payload must be a JSON/YAML object.");
  bool any = false;
  for (const char* key : {"credentials", "bindings"}) {
    const json::value* found = payload.get_object().if_contains(key);
    if (found == nullptr || found->is_null()) continue;
    any = true;
    if (!found->is_object())
      return invalid("Credential vault patch field '" + std::string(key) + "' must be an object.");
  }
  if (!any) return invalid("Credential vault patch payload must include credentials or bindings.");
  opensandbox::CredentialVaultPatch out;
  ObjectReader in(payload, kReading);
  if (const json::value* revision = in.find("expectedRevision")) {
    if (!revision->is_int64()) return invalid("Credential vault expectedRevision must be an integer.");
    out.expected_revision = revision->get_int64();
  }
  in.object("credentials", [&](ObjectReader& set) {
    set.array("add", [&](ObjectReader& one) { out.add_credentials.push_back(read_credential(one)); });
    set.array("replace", [&](ObjectReader& one) { out.replace_credentials.push_back(read_credential(one)); });
    out.delete_credentials = set.string_list("delete").value_or(Words());
  });
  in.object("bindings", [&](ObjectReader& set) {
    set.array("add", [&](ObjectReader& one) { out.add_bindings.push_back(read_binding(one)); });
    set.array("replace", [&](ObjectReader& one) { out.replace_bindings.push_back(read_binding(one)); });
    out.delete_bindings = set.string_list("delete").value_or(Words());
  });
  if (auto done = in.finish(); !done) return wrong(done.error());
  return out;
}

}  // namespace osb::cli
