#include <filesystem>

#include "cli/commands.h"
#include "cli/config/config_file.h"
#include "cli/config/write_config.h"
#include "config/toml_reader.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

void add_init(Command& group, Context& context) {
  struct Options {
    bool force = false;
  };
  Command& command = group.command("init", "Create a default configuration file.");
  Options& options = command.values<Options>();
  command.flag("--force", "Overwrite an existing file.", options.force);
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    const auto path = context.config_path();
    if (!options.force && std::filesystem::exists(path)) {
      context.out().warning("Config file already exists at " + path.string() + ". Use --force to overwrite.");
      return 0;
    }
    if (auto written = write_config(path, config_template(), ConfigAccess::AsBefore); !written)
      return failed(written.error());
    context.out().ok("Config file created: " + path.string());
    return 0;
  });
}

void add_show(Command& group, Context& context) {
  Command& command = group.command("show", "Show the resolved configuration.");
  command.formats(kFormats);
  command.action([&context]() -> Outcome {
    if (auto loaded = context.load_config(); !loaded) return failed(loaded.error());
    const Config& config = context.config();
    const auto text = [](const std::optional<std::string>& value) {
      return value ? json::value(*value) : json::value(nullptr);
    };
    json::object shown{{"api_key", config.api_key ? json::value(mask_key(*config.api_key)) : json::value(nullptr)},
                       {"domain", text(config.domain)},
                       {"protocol", config.protocol},
                       {"request_timeout", config.request_timeout},
                       {"use_server_proxy", config.use_server_proxy},
                       {"color", config.color},
                       {"default_image", text(config.default_image)},
                       {"default_timeout", text(config.default_timeout)},
                       {"config_path", context.config_path().string()},
                       {"config_file_exists", std::filesystem::exists(context.config_path())}};
    if (config.profile) shown["profile"] = *config.profile;
    context.out().object(shown, "Resolved Configuration");
    return 0;
  });
}

void add_set(Command& group, Context& context) {
  struct Options {
    std::string key, value;
  };
  Command& command = group.command("set", "Set a value, such as: connection.domain localhost:9090.");
  Options& options = command.values<Options>();
  command.argument("KEY", options.key, "section.field, or profiles.NAME.field");
  command.argument("VALUE", options.value);
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    const auto path = context.config_path();
    auto text = sys::read_text(path.string());
    if (!text && text.error().code == Code::NotFound) {
      return invalid("Config file not found: " + path.string() + ".", "Run 'osb config init' first.");
    }
    if (!text) return failed(text.error());
    const std::string hint = "Correct it, or write a new one with 'osb config init --force'.";
    if (auto valid = config::TomlReader::parse(*text, path); !valid) return failed(valid.error(), hint);
    auto changed = set_in_config(*text, options.key, options.value);
    if (!changed) return failed(changed.error());
    if (auto valid = config::TomlReader::parse(*changed, path); !valid) {
      return invalid("Cannot set " + options.key + " in " + path.string() + ": " + valid.error().message,
                     "Edit the file by hand.");
    }
    const auto access = options.key.ends_with("api_key") ? ConfigAccess::Private : ConfigAccess::AsBefore;
    if (auto written = write_config(path, *changed, access); !written) return failed(written.error());
    context.out().ok("Set " + options.key + " = " + options.value);
    return 0;
  });
}

}  // namespace

void add_config_group(Command& root, Context& context) {
  Command& group = root.command("config", "Manage the configuration of osb.").without_config();
  add_init(group, context);
  add_show(group, context);
  add_set(group, context);
}

}  // namespace osb::cli
