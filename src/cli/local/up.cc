#include "cli/local/up.h"

#include <fstream>
#include <unistd.h>

#include "base/id.h"
#include "cli/config/config_file.h"
#include "cli/config/write_config.h"
#include "cli/local/foreground.h"
#include "cli/local/http_get.h"
#include "cli/local/programs.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

struct UpOptions {
  std::string directory{kServiceDirectory};
  std::optional<std::uint16_t> port;
  bool save = false, foreground = false;
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

std::optional<std::string> server_key(const Context& context) {
  auto key = context.environment()("OPENSANDBOX_SERVER_API_KEY");
  if (key && key->empty()) key.reset();
  return key;
}

// Of a new service.
std::string first_key(const Context& context) {
  if (context.config().api_key && !context.config().api_key->empty()) return *context.config().api_key;
  return new_hex_id();
}

// Later commands find the server without options.
Expected<void> save_config(const fs::path& path, const ServiceRecord& service) {
  std::string text;
  if (std::ifstream in(path); in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (text.empty()) text = config_template();
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"connection.domain", service.domain()},
                                   {"connection.api_key", service.key}}) {
    auto changed = set_in_config(text, key, value);
    if (!changed) return failed(changed.error());
    text = std::move(*changed);
  }
  return write_config(path, text, ConfigAccess::Private);
}

std::string count(std::size_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "es");
}

void show(Context& context, const fs::path& directory, const StartedService& started, bool saved, bool foreground) {
  const ServiceRecord& service = started.record;
  const std::string stop = local_command("down", directory);
  const json::object about{{"url", service.url()},
                           {"domain", service.domain()},
                           {"api_key", service.key},
                           {"directory", directory.string()},
                           {"status", "running"},
                           {"started", !started.was_running},
                           {"sandboxes_running", started.sandboxes},
                           {"stop", stop}};
  if (context.out().structured()) return context.out().data(about);
  std::string said = "OpenSandbox " + std::string(started.was_running && !foreground ? "runs already" : "is up") +
                     " on " + service.url() + ".";
  if (started.sandboxes > 0) {
    said += " " + count(started.sandboxes, "sandbox") + (started.sandboxes == 1 ? " runs." : " run.");
  }
  said += "\n\n";
  if (!saved) {
    said += "  export OPEN_SANDBOX_DOMAIN=" + service.domain() + " OPEN_SANDBOX_API_KEY=" + service.key + "\n";
  }
  said += "  osb run host -- echo hello\n\n";
  if (saved) {
    said += "Address and key are in " + context.config_path().string() + ", where osb finds them.\n";
  } else {
    said += "Anyone with this key can run code here. Keep it secret.\n";
  }
  said += "Logs: " + directory.string() + "/*.log\nStop: " + (foreground ? "Ctrl-C" : stop) +
          " (sandboxes, images, snapshots and volumes stay)\n";
  context.out().text(said);
}

// Whether the server that answers is the one in `directory`, and has to be looked after there.
bool is_ours(const fs::path& directory, const opensandbox::Client& client) {
  if (::geteuid() == 0) {
    const auto record = read_record(directory);
    return record && *record && local_port(client.config()) == (*record)->port;
  }
  std::error_code failed;
  if (!fs::exists(directory / "service.json", failed)) return false;
  // Only root can read more; a healthy server is no reason to ask for a password.
  std::string base = client.config().base_url();
  const auto ready = http_get(base.substr(0, base.rfind("/v1")) + "/health/ready");
  return ready && ready->status == 503;
}

Outcome stay(Context& context, const fs::path& directory, const ServiceRecord& service, Foreground& foreground) {
  context.out().flush();
  const auto end = foreground.wait(service);
  if (!end) return failed(end.error());
  auto stopped = stop_service(directory, [](std::string) {});
  if (!stopped) return failed(stopped.error());
  if (!*stopped || (end->signal == 0 && !(*stopped)->was_running)) {
    context.out().info("Another osb has stopped it.");
    return 0;
  }
  if (end->signal == 0) {
    return failed(Error(Code::Unavailable, end->daemon + " has ended by itself"),
                  "Its log is " + (directory / (end->daemon + ".log")).string() + "; 'osb up' starts it again.");
  }
  show_stopped(context.out(), directory, **stopped);
  return end->signal == SIGINT ? 0 : exit_code_of_signal(end->signal);
}

Outcome up(Context& context, const UpOptions& options) {
  const fs::path directory = fs::absolute(options.directory).lexically_normal();
  auto client = context.client();
  if (!client) return failed(client.error());
  const std::string url = client->config().base_url();
  if (!options.port && client->ping() && !is_ours(directory, *client)) {
    if (context.out().structured()) {
      context.out().data(json::object{{"url", url}, {"status", "answers already"}});
    } else {
      context.out().info("A server answers at " + url + " already. To start another one: osb up --port PORT");
    }
    return 0;
  }
  if (auto root = become_root(); !root) return failed(root.error());
  LocalServiceOptions wanted;
  wanted.directory = directory;
  wanted.programs = program_directory();
  wanted.port = options.port;
  wanted.key = server_key(context);
  wanted.otherwise = {local_port(client->config()).value_or(8080), first_key(context)};
  Result<StartedService> service;
  {
    Spinner spinner(context.out(), "Starting");
    service = start_service(wanted, [&](std::string what) { spinner.update(std::move(what)); });
  }
  if (!service) {
    const bool daemon = service.error().code == Code::Unavailable;
    return failed(service.error(), daemon ? "'osb doctor' tells what this host lacks." : "");
  }
  if (options.save) {
    if (auto saved = save_config(context.config_path(), service->record); !saved) return failed(saved.error());
  }
  std::optional<Foreground> foreground;
  if (options.foreground) foreground.emplace();
  show(context, directory, *service, options.save, options.foreground);
  return foreground ? stay(context, directory, service->record, *foreground) : 0;
}

}  // namespace

std::string local_command(std::string_view command, const fs::path& directory) {
  const std::string line = "osb " + std::string(command);
  return directory == kServiceDirectory ? line : line + " --dir " + directory.string();
}

void add_up_command(Command& root, Context& context) {
  Command& command = root.command("up", "Start sandboxd and the server on this machine, unless one answers.");
  command.details(
      "They run in the background on 127.0.0.1. All that they keep is in one directory. 'osb up' after 'osb down', a "
      "crash or a reboot starts them again with their sandboxes, images, snapshots and volumes. Needs root, and asks "
      "for it with sudo. A new service takes OPENSANDBOX_SERVER_API_KEY or the configured key, or makes one.");
  UpOptions& options = command.values<UpOptions>();
  command
      .option("--port", "PORT", "The port as before; first 8080, or that of the configured local server.", options.port)
      .range(1, 65535);
  command.option("--dir", "PATH", "Directory of the service; " + std::string(kServiceDirectory) + ".",
                 options.directory);
  command.flag("--foreground", "Stay until Ctrl-C, then do as 'osb down'.", options.foreground);
  command.flag("--save", "Write address and key to the config file.", options.save);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options] { return up(context, options); });
}

}  // namespace osb::cli
