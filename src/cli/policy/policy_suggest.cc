#include "cli/policy/policy_suggest.h"

#include <opensandbox/egress.h>
#include <opensandbox/policies.h>

#include "api/json.h"
#include "cli/egress/sidecar.h"

namespace osb::cli {
namespace {

struct Options {
  std::string sandbox, name;
};

Outcome suggest(CommandIo& context, Options& options) {
  auto sandbox = context.sandbox(options.sandbox);
  if (!sandbox) return failed(sandbox.error());
  auto client = context.client();
  if (!client) return failed(client.error());
  context.out().busy("Asking for the decisions...");
  const auto decisions = sandbox->egress().decisions();
  if (!decisions) return explain_silence(context, options.sandbox, sdk_failed(context, decisions.error()));
  std::vector<opensandbox::AskedHost> asked;
  for (const auto& each : *decisions) asked.push_back({each.name, each.count});
  const auto told = opensandbox::Policies(*client).suggest(asked, options.name);
  if (!told) return sdk_failed(context, told.error());
  if (context.out().structured()) {
    const auto value = api::parse_json(told->json);
    context.out().data(value ? *value : json::value());
  } else {
    context.out().text(told->text);
  }
  return 0;
}

}  // namespace

void add_policy_suggest(Command& group, CommandIo& context) {
  Command& command = group.command("suggest", "Print the smallest template that allows what a sandbox has asked for.");
  command.details(
      "The sandbox needs a network policy; one of a template in audit mode lets everything pass and records it. The "
      "last "
      "256 names are known.");
  Options& options = command.values<Options>();
  command.argument("SANDBOX_ID", options.sandbox).completes(Completes::Sandboxes);
  command.option("--name", "NAME", "Name of the template; suggested without.", options.name);
  command.formats({Format::Raw, Format::Json, Format::Yaml});
  command.action([&context, &options] { return suggest(context, options); });
}

}  // namespace osb::cli
