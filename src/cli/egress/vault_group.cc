#include "cli/commands.h"
#include "cli/egress/sidecar.h"
#include "cli/egress/vault_payload.h"
#include "cli/encode.h"
#include "cli/read_input.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};
constexpr std::string_view kTitle = "Credential Vault";

struct Options {
  std::string id, file, name;
};

using VaultAction = std::function<Outcome(CommandIo&, const opensandbox::CredentialVault&, const Options&)>;

Command& add(Command& group, CommandIo& context, const char* name, const char* summary, const char* name_argument,
             bool payload, VaultAction run) {
  Command& command = group.command(name, summary);
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  if (name_argument != nullptr) command.argument(name_argument, o.name);
  if (payload) {
    command.option("--file", "PATH", "JSON or YAML payload, - for stdin.", o.file)
        .required()
        .completes(Completes::Files);
  }
  command.formats(kFormats);
  command.action([&context, &o, run = std::move(run)]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Talking to the vault...");
    return explain_silence(context, o.id, run(context, sandbox->credential_vault(), o));
  });
  return command;
}

Outcome show(CommandIo& context, const opensandbox::Result<opensandbox::CredentialVaultState>& state) {
  if (!state) return sdk_failed(context, state.error());
  context.out().object(encode(*state), kTitle);
  return 0;
}

template <typename Item>
Outcome show_list(CommandIo& context, const opensandbox::Result<std::vector<Item>>& items,
                  const std::vector<std::string>& columns, std::string_view title) {
  if (!items) return sdk_failed(context, items.error());
  json::array rows;
  for (const Item& item : *items) rows.push_back(encode(item));
  context.out().rows(rows, columns, title);
  return 0;
}

template <typename Item>
Outcome show_item(CommandIo& context, const opensandbox::Result<Item>& item, std::string_view title) {
  if (!item) return sdk_failed(context, item.error());
  context.out().object(encode(*item), title);
  return 0;
}

using opensandbox::CredentialVault;

Outcome create(CommandIo& context, const CredentialVault& vault, const Options& o) {
  auto payload = read_yaml_file(o.file, "credential vault payload");
  if (!payload) return failed(payload.error());
  auto contents = parse_vault_create(*payload);
  if (!contents) return failed(contents.error());
  return show(context, vault.create(contents->credentials, contents->bindings));
}

Outcome patch(CommandIo& context, const CredentialVault& vault, const Options& o) {
  auto payload = read_yaml_file(o.file, "credential vault payload");
  if (!payload) return failed(payload.error());
  auto changes = parse_vault_patch(*payload);
  if (!changes) return failed(changes.error());
  return show(context, vault.patch(*changes));
}

Outcome remove(CommandIo& context, const CredentialVault& vault, const Options& o) {
  if (auto done = vault.remove(); !done) return sdk_failed(context, done.error());
  context.out().panel("Credential Vault Deleted", {{"sandbox_id", o.id}, {"status", "deleted"}});
  return 0;
}

}  // namespace

void add_credential_vault_group(Command& root, CommandIo& context) {
  Command& group = root.command("credential-vault", "Secrets that are added to a sandbox's requests on their way out.");
  add(group, context, "create", "Create the vault of a sandbox.", nullptr, true, create);
  add(group, context, "get", "Show the vault, without its secrets.", nullptr, false,
      [](CommandIo& c, const CredentialVault& vault, const Options&) { return show(c, vault.get()); });
  add(group, context, "patch", "Add, replace and delete, all or nothing.", nullptr, true, patch);
  add(group, context, "delete", "Delete the vault of a sandbox.", nullptr, false, remove);
  Command& credentials = group.command("credential", "Credentials of the vault, without their values.");
  add(credentials, context, "list", "List them.", nullptr, false,
      [](CommandIo& c, const CredentialVault& vault, const Options&) {
        return show_list(c, vault.credentials(), {"name", "source_type", "revision"}, "Credential Vault Credentials");
      });
  add(credentials, context, "get", "Show one.", "CREDENTIAL_NAME", false,
      [](CommandIo& c, const CredentialVault& vault, const Options& o) {
        return show_item(c, vault.credential(o.name), "Credential Vault Credential");
      });
  Command& bindings = group.command("binding", "Which credential goes where.");
  add(bindings, context, "list", "List them.", nullptr, false,
      [](CommandIo& c, const CredentialVault& vault, const Options&) {
        return show_list(c, vault.bindings(), {"name", "revision", "match", "auth"}, "Credential Vault Bindings");
      });
  add(bindings, context, "get", "Show one.", "BINDING_NAME", false,
      [](CommandIo& c, const CredentialVault& vault, const Options& o) {
        return show_item(c, vault.binding(o.name), "Credential Vault Binding");
      });
}

}  // namespace osb::cli
