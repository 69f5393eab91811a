// osb credentials: secrets of a sandbox, one at a time. `osb credential-vault` takes whole payloads.

#include <boost/json/parse.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/egress/secret_input.h"
#include "cli/egress/sidecar.h"
#include "cli/encode.h"
#include "cli/more_commands.h"

namespace osb::cli {
namespace {

using opensandbox::CredentialVault;

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

template <typename Options>
Options& start(Command& command) {
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  return o;
}

template <typename Options>
void run(Command& command, CommandIo& context, Options& o,
         Outcome (*action)(CommandIo&, const CredentialVault&, const Options&)) {
  command.formats(kFormats);
  command.action([&context, &o, action]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    return explain_silence(context, o.id, action(context, sandbox->credential_vault(), o));
  });
}

Outcome changed(CommandIo& context, const opensandbox::Result<opensandbox::CredentialVaultState>& state,
                std::string_view title, json::object result) {
  if (!state) return sdk_failed(context, state.error());
  result["revision"] = state->revision;
  context.out().panel(title, result);
  return 0;
}

// --- create, rotate

struct SecretCommand {
  std::string id, name;
  SecretOptions secret;
};

Expected<opensandbox::Credential> credential_of(const SecretCommand& o) {
  opensandbox::Credential out{.name = o.name, .entry = o.secret.entry};
  const int ways = (o.secret.file.empty() ? 0 : 1) + (o.secret.descriptor ? 1 : 0) + (o.secret.entry.empty() ? 0 : 1);
  if (ways > 1) return usage_error("--from-file, --from-fd and --entry exclude each other.");
  if (!out.entry.empty()) return out;
  auto value = read_secret(o.secret, o.name);
  if (!value) return std::unexpected(value.error());
  out.value = std::move(*value);
  return out;
}

Outcome create(CommandIo& context, const CredentialVault& vault, const SecretCommand& o) {
  auto credential = credential_of(o);
  if (!credential) return failed(credential.error());
  context.out().busy("Talking to the vault...");
  opensandbox::CredentialVaultPatch patch;
  patch.add_credentials = {*credential};
  auto state = vault.patch(patch);
  // The first one makes the vault.
  if (!state && state.error().not_found()) state = vault.create({*credential}, {});
  return changed(context, state, "Credential Created", {{"sandbox_id", o.id}, {"credential", o.name}});
}

Outcome rotate(CommandIo& context, const CredentialVault& vault, const SecretCommand& o) {
  auto credential = credential_of(o);
  if (!credential) return failed(credential.error());
  context.out().busy("Talking to the vault...");
  opensandbox::CredentialVaultPatch patch;
  patch.replace_credentials = {*credential};
  return changed(context, vault.patch(patch), "Credential Rotated", {{"sandbox_id", o.id}, {"credential", o.name}});
}

void add_secret_command(Command& group, CommandIo& context, const char* name, const char* summary,
                        Outcome (*action)(CommandIo&, const CredentialVault&, const SecretCommand&)) {
  Command& command = group.command(name, summary);
  SecretCommand& o = start<SecretCommand>(command);
  command.argument("NAME", o.name);
  add_secret_options(command, o.secret);
  run(command, context, o, action);
}

// --- bind

struct BindCommand {
  std::string id, name, credential, type = "bearer", header, placeholder;
  std::vector<std::string> hosts, schemes, methods, paths, places;
  bool replace = false;
};

Outcome bind(CommandIo& context, const CredentialVault& vault, const BindCommand& o) {
  opensandbox::CredentialBinding binding{.name = o.name};
  binding.match = {.hosts = o.hosts, .schemes = o.schemes, .methods = o.methods, .paths = o.paths};
  binding.auth.type = o.type;
  if (o.type == "passthrough") {
    if (o.placeholder.empty()) return usage_error("--type passthrough needs --placeholder and --in.");
  } else if (o.type == "customHeaders") {
    if (o.header.empty()) return usage_error("--type customHeaders needs --header.");
    binding.auth.headers.push_back({o.header, o.credential});
  } else {
    binding.auth.credential = o.credential;
    if ((o.type == "apiKey") != !o.header.empty()) {
      return usage_error("--header goes with --type apiKey or customHeaders, which need it.");
    }
    binding.auth.name = o.header;
  }
  if (o.placeholder.empty() != o.places.empty()) {
    return usage_error("--placeholder and --in go together.");
  }
  if (!o.placeholder.empty()) binding.auth.substitutions.push_back({o.credential, o.placeholder, o.places});
  context.out().busy("Talking to the vault...");
  opensandbox::CredentialVaultPatch patch;
  (o.replace ? patch.replace_bindings : patch.add_bindings).push_back(std::move(binding));
  return changed(context, vault.patch(patch), "Credential Bound",
                 {{"sandbox_id", o.id}, {"binding", o.name}, {"credential", o.credential}});
}

void add_bind(Command& group, CommandIo& context) {
  Command& command = group.command("bind", "Say which requests get a credential.");
  BindCommand& o = start<BindCommand>(command);
  command.argument("BINDING", o.name);
  command.option("--credential", "NAME", "The credential.", o.credential).required();
  command.option("--host", "HOST", "A host, or *.domain for all names below it. Repeatable.", o.hosts).required();
  command.option("--type", "TYPE", "How it is sent. Default: bearer.", o.type)
      .choices({"bearer", "basic", "apiKey", "customHeaders", "passthrough"});
  command.option("--header", "NAME", "The header of apiKey and customHeaders.", o.header);
  command.option("--method", "METHOD", "Default: GET, POST, PUT, PATCH and DELETE. Repeatable.", o.methods);
  command.option("--path", "PATTERN", "A path, or a prefix that ends with *. Default: /*. Repeatable.", o.paths);
  command.option("--scheme", "SCHEME", "Default: https. Repeatable.", o.schemes).choices({"https", "http"});
  command.option("--placeholder", "TEXT", "A text in requests that becomes the secret.", o.placeholder);
  command.option("--in", "PLACE", "Where placeholders are replaced. Repeatable.", o.places)
      .choices({"path", "query", "header", "body"});
  command.flag("--replace", "Change a binding that exists.", o.replace);
  run(command, context, o, bind);
}

// --- list, delete

struct ListCommand {
  std::string id;
};

Outcome list(CommandIo& context, const CredentialVault& vault, const ListCommand&) {
  context.out().busy("Talking to the vault...");
  const auto state = vault.get();
  if (!state) return sdk_failed(context, state.error());
  const json::object shown = encode(*state);
  if (context.out().structured()) {
    context.out().data(shown);
    return 0;
  }
  context.out().rows(shown.at("credentials").as_array(), {"name", "source_type", "entry", "revision"}, "Credentials");
  context.out().rows(shown.at("bindings").as_array(), {"name", "match", "auth"}, "Bindings");
  return 0;
}

struct DeleteCommand {
  std::string id;
  std::vector<std::string> names, bindings;
};

Outcome remove(CommandIo& context, const CredentialVault& vault, const DeleteCommand& o) {
  if (o.names.empty() && o.bindings.empty()) return usage_error("Name a credential, or a --binding.");
  context.out().busy("Talking to the vault...");
  opensandbox::CredentialVaultPatch patch;
  patch.delete_credentials = o.names;
  patch.delete_bindings = o.bindings;
  return changed(context, vault.patch(patch), "Credentials Deleted",
                 {{"sandbox_id", o.id},
                  {"credentials", json::array(o.names.begin(), o.names.end())},
                  {"bindings", json::array(o.bindings.begin(), o.bindings.end())}});
}

// --- audit

struct AuditCommand {
  std::string id;
  bool follow = false;
};

std::string audit_line(const opensandbox::CredentialAuditLine& line) {
  if (line.operation != "inject") {
    return fmt::format("{}  {:15}  {}  revision {}  status {}\n", line.time, line.operation,
                       line.binding.empty() ? "-" : line.binding, line.revision, line.status_code);
  }
  return fmt::format("{}  {:15}  {}  {} {}{}  status {}\n", line.time, line.decision,
                     line.binding.empty() ? "-" : line.binding, line.method, line.host, line.path_pattern,
                     line.status_code);
}

// Until the sandbox ends or the reader of the output goes. A signal ends osb as usual.
Outcome follow_audit(CommandIo& context, const CredentialVault& vault) {
  const auto ended = vault.follow_audit([&](const opensandbox::CredentialAuditLine& line) {
    if (context.out().structured()) {
      context.out().json_line(json::parse(line.json));
    } else {
      context.out().text(audit_line(line));
    }
    context.out().flush();
    return context.out().write_error() == 0;
  });
  if (!ended) return sdk_failed(context, ended.error());
  return 0;
}

Outcome audit(CommandIo& context, const CredentialVault& vault, const AuditCommand& o) {
  if (o.follow) return follow_audit(context, vault);
  context.out().busy("Fetching...");
  const auto lines = vault.audit();
  if (!lines) return sdk_failed(context, lines.error());
  if (context.out().structured()) {
    json::array rows;
    for (const auto& each : *lines) rows.push_back(json::parse(each.json));
    context.out().data(rows);
  } else if (lines->empty()) {
    context.out().info("No credential of the sandbox was used or changed yet.");
  } else {
    std::string text;
    for (const auto& each : *lines) text += audit_line(each);
    context.out().text(text);
  }
  return 0;
}

}  // namespace

void add_credentials_group(Command& root, CommandIo& context) {
  Command& group = root.command("credentials", "Secrets that a sandbox uses and never sees, one at a time.");
  add_secret_command(group, context, "create", "Put a secret into the vault of a sandbox.", create);
  add_bind(group, context);
  Command& listing = group.command("list", "Show credentials and bindings, without secrets.");
  run(listing, context, start<ListCommand>(listing), list);
  add_secret_command(group, context, "rotate", "Replace a secret; open connections use the new one.", rotate);
  Command& removal = group.command("delete", "Delete credentials and bindings, all or nothing.");
  DeleteCommand& removed = start<DeleteCommand>(removal);
  removal.argument("NAME", removed.names).optional();
  removal.option("--binding", "NAME", "A binding to delete too. Repeatable.", removed.bindings);
  run(removal, context, removed, remove);
  Command& auditing = group.command("audit", "Show each use of a credential and each change.");
  AuditCommand& audited = start<AuditCommand>(auditing);
  auditing.flag("-f,--follow", "Go on with new ones until Ctrl-C.", audited.follow);
  run(auditing, context, audited, audit);
}

}  // namespace osb::cli
