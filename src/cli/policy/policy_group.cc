// osb policy: templates of network policies.

#include <opensandbox/policies.h>

#include "api/json.h"
#include "cli/encode.h"
#include "cli/more_commands.h"
#include "cli/policy/local_policies.h"
#include "cli/policy/policy_suggest.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};
constexpr int kDenied = 1;

struct Options {
  std::string name, host;
  std::optional<std::int64_t> port;
  bool capabilities = false, quiet = false, server = false;
};

json::object parsed(const std::string& text) {
  const auto value = api::parse_json(text);
  return value && value->is_object() ? value->get_object() : json::object();
}

std::string joined(const json::value* list) {
  std::string out;
  if (list == nullptr || !list->is_array()) return out;
  for (const json::value& item : list->get_array()) {
    if (!out.empty()) out += ", ";
    out += item.is_string() ? std::string(item.get_string()) : json::serialize(item);
  }
  return out;
}

std::string text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

// "capability git (github), base.toml:3:17"
std::string origin_text(const json::object& origin) {
  std::string out = text_in(origin, "kind");
  if (out == "capability") {
    out += " " + text_in(origin, "capability");
    if (const std::string part = text_in(origin, "part"); !part.empty()) out += " (" + part + ")";
  }
  out += ", " + text_in(origin, "source");
  for (const char* key : {"line", "column"}) {
    if (const json::value* number = origin.if_contains(key)) out += ":" + json::serialize(*number);
  }
  return out;
}

void show_template(CommandIo& context, const json::object& compiled) {
  if (context.out().structured()) return context.out().data(compiled);
  json::object head;
  for (const char* key : {"name", "description", "mode"}) head[key] = text_in(compiled, key);
  head["extends"] = joined(compiled.if_contains("extends"));
  head["capabilities"] = joined(compiled.if_contains("capabilities"));
  head["default_action"] = text_in(compiled, "defaultAction");
  head["source"] = text_in(compiled, "source");
  context.out().object(head, "Policy Template");
  json::array rows;
  if (const json::value* rules = compiled.if_contains("rules"); rules != nullptr && rules->is_array()) {
    for (const json::value& item : rules->get_array()) {
      const json::object* rule = item.if_object();
      if (rule == nullptr) continue;
      const json::value* origin = rule->if_contains("origin");
      rows.push_back({{"action", text_in(*rule, "action")},
                      {"target", rule->contains("target") ? text_in(*rule, "target") : "every address"},
                      {"ports", joined(rule->if_contains("ports"))},
                      {"origin", origin != nullptr && origin->is_object() ? origin_text(origin->get_object()) : ""}});
    }
  }
  if (!rows.empty()) context.out().rows(rows, {"action", "target", "ports", "origin"}, "Rules");
}

Outcome list(CommandIo& context, const Options& options) {
  auto client = context.client();
  if (!client) return failed(client.error());
  context.out().busy("Asking for the templates...");
  const auto found = opensandbox::Policies(*client).list();
  if (!found) return sdk_failed(context, found.error());
  if (context.out().structured()) return context.out().data(parsed(found->json)), 0;
  json::array rows;
  if (options.capabilities) {
    for (const auto& each : found->capabilities) {
      std::string hosts;
      for (const auto* words : {&each.includes, &each.allow}) {
        for (const std::string& word : *words) hosts += (hosts.empty() ? "" : " ") + word;
      }
      rows.push_back({{"name", each.name}, {"description", each.description}, {"allows", hosts}});
    }
    context.out().table(
        rows,
        {{.key = "name"}, {.key = "description", .rank = 2, .least = 20}, {.key = "allows", .rank = 3, .least = 20}});
    return 0;
  }
  if (found->items.empty()) {
    context.out().info("The server has no policy templates ([policies] directory in its configuration).");
    return 0;
  }
  for (const auto& each : found->items) {
    rows.push_back({{"name", each.name + (each.name == found->default_template ? " (default)" : "")},
                    {"mode", each.mode},
                    {"default_action", each.default_action},
                    {"rules", each.rule_count},
                    {"description", each.description}});
  }
  context.out().table(rows, {{.key = "name"},
                             {.key = "mode"},
                             {.key = "default_action", .rank = 3, .header = "default"},
                             {.key = "rules", .rank = 2},
                             {.key = "description", .rank = 4, .least = 20}});
  return 0;
}

Outcome show(CommandIo& context, const Options& options) {
  auto client = context.client();
  if (!client) return failed(client.error());
  context.out().busy("Asking for the template...");
  const auto found = opensandbox::Policies(*client).get(options.name);
  if (!found) return sdk_failed(context, found.error());
  show_template(context, parsed(found->json));
  return 0;
}

Outcome compile_on_server(CommandIo& context, const std::string& file) {
  const auto text = read_policy_file(file);
  if (!text) return failed(text.error());
  auto client = context.client();
  if (!client) return failed(client.error());
  context.out().busy("Compiling...");
  const auto compiled = opensandbox::Policies(*client).compile(*text, file);
  if (!compiled) return sdk_failed(context, compiled.error());
  show_template(context, parsed(compiled->json));
  return 0;
}

Outcome compile(CommandIo& context, const Options& options) {
  if (options.server) return compile_on_server(context, options.name);
  const auto compiled = compile_policy_file(options.name);
  if (!compiled) return failed(compiled.error());
  show_template(context, policy::to_json(*compiled, true));
  return 0;
}

// The explanation of the server, or of a local file.
Expected<json::object> explained(CommandIo& context, const Options& options) {
  if (is_policy_file(options.name)) {
    const auto compiled = compile_policy_file(options.name);
    if (!compiled) return std::unexpected(compiled.error());
    const auto told =
        policy::explain(*compiled, options.host,
                        options.port ? std::optional(static_cast<std::uint16_t>(*options.port)) : std::nullopt);
    if (!told) return invalid(told.error().message);
    return policy::to_json(*told, *compiled);
  }
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  context.out().busy("Asking...");
  const auto told = opensandbox::Policies(*client).explain(
      options.name, options.host, options.port ? std::optional(static_cast<int>(*options.port)) : std::nullopt);
  if (!told) return sdk_failed(context, told.error());
  return parsed(told->json);
}

Outcome explain(CommandIo& context, const Options& options) {
  const auto told = explained(context, options);
  if (!told) return failed(told.error());
  if (context.out().structured()) return context.out().data(*told), 0;
  const bool audit = text_in(*told, "mode") == "audit";
  context.out().text(text_in(*told, "action") + " " + text_in(*told, "host") + ": " + text_in(*told, "because") +
                     (audit ? "; the template is in audit mode and lets it pass" : "") + "\n");
  return 0;
}

Outcome test(CommandIo& context, const Options& options) {
  const auto told = explained(context, options);
  if (!told) {
    // Exit code 1 means denied.
    Problem problem = told.error();
    if (problem.exit_code == kDenied) problem.exit_code = 3;
    return failed(std::move(problem));
  }
  const std::string action = text_in(*told, "action");
  if (context.out().structured()) {
    context.out().data(*told);
  } else if (!options.quiet) {
    context.out().text(action + "\n");
  }
  return action == "allow" ? 0 : kDenied;
}

void add_name(Command& command, Options& options, const char* name, Completes completes) {
  command.argument(name, options.name).completes(completes);
}

void add_question(Command& group, CommandIo& context, const char* name, const char* summary, const char* details,
                  Outcome (*run)(CommandIo&, const Options&)) {
  Command& command = group.command(name, summary);
  command.details(details);
  Options& options = command.values<Options>();
  add_name(command, options, "TEMPLATE_OR_FILE", Completes::Policies);
  command.argument("HOST", options.host);
  command.option("--port", "PORT", "TCP port, for rules with ports.", options.port).range(1, 65535);
  if (run == &test) command.flag("-q,--quiet", "Only the exit code.", options.quiet);
  command.formats(kFormats);
  command.action([&context, &options, run] { return run(context, options); });
}

}  // namespace

void add_policy_group(Command& root, CommandIo& context) {
  Command& group = root.command("policy", "Templates of network policies: see, explain and test them.");
  Command& all = group.command("list", "List the server's templates.");
  Options& l = all.values<Options>();
  all.flag("--capabilities", "List the capabilities that templates can name instead.", l.capabilities);
  all.formats({Format::Table, Format::Wide, Format::Json, Format::Yaml});
  all.action([&context, &l] { return list(context, l); });

  Command& one = group.command("show", "Show a template: its rules and where they come from.");
  Options& s = one.values<Options>();
  add_name(one, s, "TEMPLATE", Completes::Policies);
  one.formats(kFormats);
  one.action([&context, &s] { return show(context, s); });

  Command& file = group.command("compile", "Compile a template file of this machine.");
  file.details(
      "No server is needed: templates that it extends, and catalogue.toml, are read from the directory of the file. "
      "With "
      "--server they are those of the server.");
  Options& c = file.values<Options>();
  file.flag("--server", "The server compiles it, with its templates and capabilities.", c.server);
  add_name(file, c, "FILE", Completes::Files);
  file.formats(kFormats);
  file.action([&context, &c] { return compile(context, c); });

  constexpr const char* kFiles =
      "A template of the server, or a file of this machine: a text that ends with .toml or contains a slash.";
  add_question(group, context, "explain", "Say which rule decides about a host, and where it comes from.", kFiles,
               explain);
  add_question(group, context, "test", "Exit with 0 if the template allows a host, 1 if it denies it, else 3.", kFiles,
               test);
  add_policy_suggest(group, context);
}

}  // namespace osb::cli
