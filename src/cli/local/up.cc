#include <fstream>

#include "base/id.h"
#include "cli/config/config_file.h"
#include "cli/config/write_config.h"
#include "cli/local/local_service.h"
#include "cli/local/programs.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDirectory = "/var/lib/opensandbox-local";

struct UpOptions {
  std::string directory{kDirectory};
  std::optional<std::uint16_t> port;
  bool save = false;
};

// The port of the configured server, where that is this machine.
std::optional<std::uint16_t> local_port(const opensandbox::ConnectionConfig& config) {
  std::string host = config.base_url();
  host.erase(0, host.find("://") + 3);
  host.erase(std::min(host.find('/'), host.size()));
  const std::size_t colon = host.rfind(':');
  const std::string name = host.substr(0, colon);
  if (name != "localhost" && !name.starts_with("127.")) return std::nullopt;
  if (colon == std::string::npos) return 80;
  return static_cast<std::uint16_t>(std::atoi(host.c_str() + colon + 1));
}

std::string key_for(const Context& context) {
  if (const auto key = context.environment()("OPENSANDBOX_SERVER_API_KEY"); key && !key->empty()) return *key;
  if (context.config().api_key && !context.config().api_key->empty()) return *context.config().api_key;
  return new_hex_id();
}

// Whatever comes later finds the server without options.
Expected<void> save_config(const fs::path& path, const ServiceRecord& service) {
  std::string text;
  if (std::ifstream in(path); in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (text.empty()) text = config_template();
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"connection.domain", "127.0.0.1:" + std::to_string(service.port)},
        {"connection.api_key", service.key}}) {
    auto changed = set_in_config(text, key, value);
    if (!changed) return failed(changed.error());
    text = std::move(*changed);
  }
  return write_config(path, text, ConfigAccess::Private);
}

void show(Context& context, const UpOptions& options, const ServiceRecord& service, bool saved) {
  const std::string stop = options.directory == kDirectory ? "osb down" : "osb down --dir " + options.directory;
  const json::object about{{"url", service.url()},   {"domain", "127.0.0.1:" + std::to_string(service.port)},
                           {"api_key", service.key}, {"directory", options.directory},
                           {"status", "running"},    {"stop", stop}};
  if (context.out().structured()) return context.out().data(about);
  context.out().text("OpenSandbox is up on " + service.url() + ". It runs code for whoever has the key.\n\n");
  if (saved) {
    context.out().text("osb finds it by itself: address and key are in " + context.config_path().string() + ".\n");
  } else {
    context.out().text("  export OPEN_SANDBOX_DOMAIN=127.0.0.1:" + std::to_string(service.port) +
                       " OPEN_SANDBOX_API_KEY=" + service.key + "\n");
  }
  context.out().text("  osb run host -- echo hello\n\nLogs: " + options.directory +
                     "/*.log\nStop it, and remove its sandboxes and images, with: " + stop + "\n");
}

Outcome up(Context& context, const UpOptions& options) {
  auto client = context.client();
  if (!client) return failed(client.error());
  const std::optional<std::uint16_t> configured = local_port(client->config());
  if (!options.port && client->ping()) {
    // Our own from before says the same again.
    const auto record = ::geteuid() == 0 ? read_record(options.directory) : Result<std::optional<ServiceRecord>>();
    if (record && *record && (*record)->running() && configured == (*record)->port) {
      show(context, options, **record, false);
      return 0;
    }
    if (context.out().structured()) {
      context.out().data(json::object{{"url", client->config().base_url()}, {"status", "answers already"}});
    } else {
      context.out().info("A server answers at " + client->config().base_url() + " already.");
    }
    return 0;
  }
  if (auto root = become_root(); !root) return failed(root.error());
  LocalServiceOptions wanted;
  wanted.directory = fs::absolute(options.directory);
  wanted.programs = program_directory();
  wanted.port = options.port.value_or(configured.value_or(8080));
  wanted.key = key_for(context);
  Result<ServiceRecord> service;
  {
    Spinner spinner(context.out(), "Starting");
    service = start_service(wanted, [&](std::string what) { spinner.update(std::move(what)); });
  }
  if (!service) return failed(service.error(), "'osb doctor' says what this host lacks.");
  if (options.save) {
    if (auto saved = save_config(context.config_path(), *service); !saved) return failed(saved.error());
  }
  show(context, options, *service, options.save);
  return 0;
}

Outcome down(Context& context, const UpOptions& options) {
  if (auto root = become_root(); !root) return failed(root.error());
  Result<bool> stopped;
  {
    Spinner spinner(context.out(), "Stopping");
    stopped = stop_service(fs::absolute(options.directory), [&](std::string what) { spinner.update(std::move(what)); });
  }
  if (!stopped) return failed(stopped.error());
  if (*stopped) {
    context.out().ok("Stopped; its sandboxes and images are gone.");
  } else {
    context.out().info("Nothing that 'osb up' has started is in " + options.directory + ".");
  }
  return 0;
}

}  // namespace

void add_up_command(Command& root, Context& context) {
  Command& command = root.command("up", "Start sandboxd and the server on this machine, unless one answers.");
  command.details(
      "They run in the background, on 127.0.0.1, with directories, addresses and cgroups of their own; 'osb down' ends "
      "them and removes everything. Needs root, and asks for it with sudo. The key is OPENSANDBOX_SERVER_API_KEY or "
      "the "
      "configured one, else a new one.");
  UpOptions& options = command.values<UpOptions>();
  command.option("--port", "PORT", "8080, or the port of the configured local server.", options.port).range(1, 65535);
  command.option("--dir", "PATH", "Where everything of it lives; " + std::string(kDirectory) + ".", options.directory);
  command.flag("--save", "Write address and key to the config file.", options.save);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options] { return up(context, options); });
}

void add_down_command(Command& root, Context& context) {
  Command& command = root.command("down", "Stop what 'osb up' has started, and remove its sandboxes and images.");
  UpOptions& options = command.values<UpOptions>();
  command.option("--dir", "PATH", "As for 'osb up'.", options.directory);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.without_config();
  command.action([&context, &options] { return down(context, options); });
}

}  // namespace osb::cli
