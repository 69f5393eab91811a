#include <algorithm>
#include <array>
#include <opensandbox/templates.h>
#include <unistd.h>

#include "api/json.h"
#include "base/text.h"
#include "cli/encode.h"
#include "cli/lookup/lookup.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/read_input.h"

namespace osb::cli {
namespace {

using opensandbox::Template;

constexpr std::array<std::string_view, 8> kFields = {"image", "publish",  "resourceLimits", "entrypoint",
                                                     "env",   "metadata", "readiness",      "format"};

json::value map_or_null(const opensandbox::StringMap& map) {
  return map.empty() ? json::value(nullptr) : json::value(encode(map));
}

// As the original prints it.
json::object to_json(const Template& each) {
  json::object out{{"template_id", each.id},
                   {"image", each.image},
                   {"publish", each.publish},
                   {"format", each.format},
                   {"status", json::object{{"phase", each.phase},
                                           {"manifest_ref", text_or_null(each.manifest_ref)},
                                           {"message", text_or_null(each.message)}}},
                   {"created_at", opensandbox::format_timestamp(each.created_at)},
                   {"updated_at", opensandbox::format_timestamp(each.updated_at)},
                   {"resource_limits", map_or_null(each.resource_limits)},
                   {"entrypoint", json::array(each.entrypoint.begin(), each.entrypoint.end())},
                   {"env", map_or_null(each.env)},
                   {"metadata", map_or_null(each.metadata)},
                   {"readiness", nullptr}};
  if (each.readiness) {
    const auto& warmup = each.readiness->warmup_seconds;
    out["readiness"] = json::object{{"probe", text_or_null(each.readiness->probe)},
                                    {"warmup_seconds", warmup ? json::value(warmup->count()) : json::value(nullptr)}};
  }
  return out;
}

json::object to_row(const Template& each) {
  json::object out = to_json(each);
  out["status"] = each.phase;
  if (!each.message.empty()) out["status_message"] = each.message;
  if (each.readiness) {
    std::string text = each.readiness->probe;
    if (const auto& warmup = each.readiness->warmup_seconds) {
      text += (text.empty() ? "warmup=" : " warmup=") + std::to_string(warmup->count()) + "s";
    }
    out["readiness"] = text_or_null(text);
  }
  return out;
}

struct Options {
  std::string id;
  std::vector<std::string> ids;
  std::optional<std::string> image, publish, request_file, format, probe;
  std::optional<std::int64_t> warmup;
  std::vector<KeyValue> resources, env, metadata;
  std::vector<std::string> entrypoint;
  std::int64_t page = 0, page_size = 0;
  bool wait = false;
  Duration timeout{std::chrono::seconds(1800)};
};

opensandbox::StringMap to_map(const std::vector<KeyValue>& pairs) { return {pairs.begin(), pairs.end()}; }

// The options that a request file replaces and that were given all the same.
std::string conflicts_with_file(const Options& o) {
  std::string out;
  const auto add = [&](bool given, std::string_view option) {
    if (given) out += (out.empty() ? "" : ", ") + std::string(option);
  };
  add(o.image.has_value(), "--image");
  add(o.publish.has_value(), "--publish");
  add(!o.resources.empty(), "--resource");
  add(!o.entrypoint.empty(), "--entrypoint");
  add(!o.env.empty(), "--env");
  add(!o.metadata.empty(), "--metadata");
  add(o.format.has_value(), "--format");
  add(o.probe.has_value(), "--readiness-probe");
  add(o.warmup.has_value(), "--warmup-seconds");
  return out;
}

Expected<std::string> body_of_file(const Options& options) {
  const std::string& path = *options.request_file;
  if (path != "-" && ::access(path.c_str(), F_OK) != 0) {
    return usage_error("Invalid value for '--file' / '-f': File '" + path + "' does not exist.");
  }
  if (const std::string given = conflicts_with_file(options); !given.empty()) {
    return invalid("--file cannot be combined with: " + given + ".");
  }
  auto value = read_json_file(path, "request");
  if (!value) return failed(value.error());
  if (!value->is_object()) return invalid("Request file '" + path + "' must contain a JSON object.");
  std::vector<std::string> unknown;
  for (const auto& field : value->get_object()) {
    if (std::ranges::find(kFields, std::string_view(field.key())) == kFields.end()) unknown.emplace_back(field.key());
  }
  std::ranges::sort(unknown);
  if (!unknown.empty()) return invalid("Request file '" + path + "' has unsupported fields: " + joined(unknown) + ".");
  return json::serialize(*value);
}

Expected<opensandbox::CreateTemplateOptions> wanted_of(const Options& options) {
  if (!options.image || options.image->empty()) return invalid("Missing required options: --image (or pass --file).");
  opensandbox::CreateTemplateOptions out;
  out.image = *options.image;
  if (options.publish) out.publish = *options.publish;
  out.resource_limits = to_map(options.resources);
  out.entrypoint = options.entrypoint;
  out.env = to_map(options.env);
  out.metadata = to_map(options.metadata);
  out.format = options.format.value_or("");
  if (options.probe || options.warmup) {
    out.readiness.emplace();
    out.readiness->probe = options.probe.value_or("");
    if (options.warmup) out.readiness->warmup_seconds = std::chrono::seconds(*options.warmup);
  }
  return out;
}

// The request of a file goes as it is: the server checks its values.
Expected<std::string> id_of_answer(const opensandbox::Result<std::string>& answer, CommandIo& context) {
  if (!answer) return sdk_failed(context, answer.error());
  const auto made = api::parse_json(*answer);
  const json::object* object = made ? made->if_object() : nullptr;
  const json::value* id = object != nullptr ? object->if_contains("templateId") : nullptr;
  if (id == nullptr || !id->is_string()) return invalid("The server's answer names no template.");
  return std::string(id->get_string());
}

Outcome create(CommandIo& context, Options& options) {
  opensandbox::CreateTemplateOptions wanted;
  std::string body;
  if (options.request_file) {
    auto read = body_of_file(options);
    if (!read) return failed(read.error());
    body = std::move(*read);
  } else {
    auto given = wanted_of(options);
    if (!given) return failed(given.error());
    wanted = std::move(*given);
  }
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  Spinner spinner(context.out(), "Creating template...");
  opensandbox::Result<Template> made;
  if (options.request_file) {
    auto id = id_of_answer(manager->request("POST", "/templates", body), context);
    if (!id) return failed(id.error());
    made = manager->get_template(*id);
  } else {
    made = manager->create_template(wanted);
  }
  if (made && options.wait) made = manager->wait_for_template(made->id, options.timeout.value);
  spinner.stop();
  if (!made) return sdk_failed(context, made.error());
  json::object panel{{"template_id", made->id}, {"image", made->image}, {"status", made->phase}};
  if (options.request_file) panel["request_file"] = *options.request_file;
  context.out().panel("Template Created", panel);
  return 0;
}

Outcome list(CommandIo& context, Options& options) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  Spinner spinner(context.out(), "Fetching templates...");
  auto found = manager->templates({.metadata = to_map(options.metadata),
                                   .page = static_cast<int>(options.page),
                                   .page_size = static_cast<int>(options.page_size)});
  spinner.stop();
  if (!found) return sdk_failed(context, found.error());
  const bool structured = context.out().structured();
  json::array rows;
  for (const Template& each : found->items) rows.push_back(structured ? to_json(each) : to_row(each));
  if (structured) {
    context.out().data(json::object{{"items", std::move(rows)}, {"pagination", encode(found->pagination)}});
  } else if (rows.empty()) {
    context.out().info("No templates found.");
  } else {
    using Kind = Column::Kind;
    context.out().table(rows, {{.key = "template_id", .kind = Kind::Id, .header = "id"},
                               {.key = "status"},
                               {.key = "image", .rank = 2, .least = 12},
                               {.key = "publish", .place = Column::Place::Wide},
                               {.key = "created_at", .kind = Kind::Age, .rank = 3, .header = "created"},
                               {.key = "status_message", .place = Column::Place::Wide, .header = "message"}});
  }
  return 0;
}

Outcome get(CommandIo& context, Options& options) {
  auto manager = context.manager_of_template(options.id);
  if (!manager) return failed(manager.error());
  auto found = manager->get_template(options.id);
  if (!found) return sdk_failed(context, found.error());
  context.out().object(context.out().structured() ? to_json(*found) : to_row(*found), "Template Info");
  return 0;
}

Outcome logs(CommandIo& context, Options& options) {
  auto manager = context.manager_of_template(options.id);
  if (!manager) return failed(manager.error());
  auto text = manager->template_logs(options.id);
  if (!text) return sdk_failed(context, text.error());
  context.out().text(*text);
  return 0;
}

Outcome remove(CommandIo& context, Options& options) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  for (std::string& id : options.ids) {
    auto found = find_template(context, *manager, id);
    if (!found) return failed(found.error());
    id = std::move(*found);
    if (auto removed = manager->delete_template(id); !removed) return sdk_failed(context, removed.error());
    context.out().ok("Template deleted: " + id);
  }
  return 0;
}

}  // namespace

void add_template_group(Command& root, CommandIo& context) {
  Command& group = root.command("template", "Warm an image up once and start sandboxes from it.");
  const std::vector<Format> formats = {Format::Table, Format::Json, Format::Yaml};
  {
    Command& command = group.command("create", "Build a template.");
    Options& o = command.values<Options>();
    command.option("-i,--image", "TEXT", "Image to start.", o.image).completes(Completes::Images);
    command.option("-p,--publish", "TEXT", "local:// (the default), or file:///DIRECTORY/NAME.tar.", o.publish);
    command.option("-f,--file", "PATH", "JSON of the API's request instead of the other options.", o.request_file)
        .completes(Completes::Files);
    command.option("--resource", "KEY=VALUE", "Limit: cpu, memory or disk. Repeatable.", o.resources);
    command.option("--entrypoint", "TEXT", "One word of the entrypoint. Repeatable.", o.entrypoint);
    command.option("-e,--env", "KEY=VALUE", "Environment variable. Repeatable.", o.env);
    command.option("-m,--metadata", "KEY=VALUE", "Metadata. Repeatable.", o.metadata);
    command.option("--format", "TEXT", "How the snapshot is kept.", o.format).choices({"native", "overlaybd"});
    command.option("--readiness-probe", "TEXT", "tcp://127.0.0.1:PORT or cmd://COMMAND: warm when it answers.",
                   o.probe);
    command.option("--warmup-seconds", "N", "Seconds to wait after that.", o.warmup).range(0);
    command.flag("--wait", "Wait until it is built.", o.wait);
    command.option("--timeout", "DURATION", "How long --wait waits; half an hour.", o.timeout);
    command.formats(formats).action([&context, &o] { return create(context, o); });
  }
  {
    Command& command = group.command("list", "List templates.");
    Options& o = command.values<Options>();
    command.option("-m,--metadata", "KEY=VALUE", "With this metadata only. Repeatable.", o.metadata);
    command.option("--page", "N", "Page, from 1.", o.page).range(1);
    command.option("--page-size", "N", "Items per page.", o.page_size).range(1);
    command.formats({Format::Table, Format::Wide, Format::Json, Format::Yaml}).action([&context, &o] {
      return list(context, o);
    });
  }
  {
    Command& command = group.command("get", "Show one template.");
    Options& o = command.values<Options>();
    command.argument("TEMPLATE_ID", o.id);
    command.formats(formats).action([&context, &o] { return get(context, o); });
  }
  {
    Command& command = group.command("logs", "Show the output of a build that is under way or has failed.");
    Options& o = command.values<Options>();
    command.argument("TEMPLATE_ID", o.id);
    command.formats({Format::Raw}).action([&context, &o] { return logs(context, o); });
  }
  {
    Command& command = group.command("delete", "Delete templates. Sandboxes that were made of them go on.");
    Options& o = command.values<Options>();
    command.argument("TEMPLATE_ID", o.ids);
    command.formats(formats).action([&context, &o] { return remove(context, o); });
  }
}

}  // namespace osb::cli
