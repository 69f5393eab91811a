#include "cli/encode.h"
#include "cli/more_commands.h"

namespace osb::cli {
namespace {

struct Options {
  std::string id;
  std::optional<std::string> key;
  std::vector<KeyValue> pairs;
  std::vector<std::string> keys;
};

void show(CommandIo& context, const opensandbox::SandboxInfo& info) {
  const json::object metadata = encode(info.metadata.value_or(opensandbox::StringMap()));
  if (metadata.empty() && !context.out().structured()) {
    context.out().info("No metadata.");
  } else {
    context.out().object(metadata);
  }
}

Outcome get(CommandIo& context, Options& options) {
  auto manager = context.manager_of_sandbox(options.id);
  if (!manager) return failed(manager.error());
  auto info = manager->get(options.id);
  if (!info) return sdk_failed(context, info.error());
  if (!options.key) {
    show(context, *info);
    return 0;
  }
  const opensandbox::StringMap metadata = info->metadata.value_or(opensandbox::StringMap());
  const auto found = metadata.find(*options.key);
  if (found == metadata.end()) {
    return invalid("Sandbox " + options.id + " has no metadata '" + *options.key + "'.");
  }
  if (context.out().structured()) {
    context.out().data(json::object{{found->first, found->second}});
  } else {
    context.out().text(found->second + "\n");
  }
  return 0;
}

Outcome patch(CommandIo& context, std::string& id, const opensandbox::MetadataPatch& change) {
  auto manager = context.manager_of_sandbox(id);
  if (!manager) return failed(manager.error());
  auto info = manager->patch_metadata(id, change);
  if (!info) return sdk_failed(context, info.error());
  show(context, *info);
  return 0;
}

}  // namespace

void add_metadata_group(Command& root, CommandIo& context) {
  Command& group = root.command("metadata", "Read and change the metadata of a sandbox.");
  const std::vector<Format> formats = {Format::Table, Format::Json, Format::Yaml};
  {
    Command& command = group.command("get", "Show all metadata, or the value of one key.");
    Options& options = command.values<Options>();
    command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
    command.argument("KEY", options.key).optional();
    command.formats(formats).action([&context, &options] { return get(context, options); });
  }
  {
    Command& command = group.command("set", "Set metadata; other keys stay as they are.");
    Options& options = command.values<Options>();
    command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
    command.argument("KEY=VALUE", options.pairs);
    command.formats(formats).action([&context, &options] {
      opensandbox::MetadataPatch change;
      for (const auto& [key, value] : options.pairs) change[key] = value;
      return patch(context, options.id, change);
    });
  }
  {
    Command& command = group.command("unset", "Remove metadata.");
    Options& options = command.values<Options>();
    command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
    command.argument("KEY", options.keys);
    command.formats(formats).action([&context, &options] {
      opensandbox::MetadataPatch change;
      for (const std::string& key : options.keys) change[key] = std::nullopt;
      return patch(context, options.id, change);
    });
  }
}

}  // namespace osb::cli
