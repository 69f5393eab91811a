#include "cli/local/up.h"

#include <unistd.h>

#include "base/id.h"
#include "base/parse_number.h"
#include "cli/config/saved_profile.h"
#include "cli/local/foreground.h"
#include "cli/local/http_get.h"
#include "cli/local/programs.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/terminal/signal_fd.h"
#include "client/key_origin.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

struct UpOptions {
  std::string directory{kServiceDirectory};
  std::optional<std::uint16_t> port;
  std::vector<std::string> host_paths, registries;
  bool no_save = false, foreground = false;
};

constexpr std::string_view kNone = "none";

// As sandboxd compares them: without links. Nothing: the option was not given.
Expected<std::optional<std::vector<std::string>>> wanted_host_paths(const UpOptions& options) {
  if (options.host_paths.empty()) return std::nullopt;
  std::vector<std::string> out;
  for (const std::string& path : options.host_paths) {
    if (path == kNone && options.host_paths.size() == 1) break;
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error || !fs::is_directory(real, error)) {
      return invalid("--allow-host-path " + path + ": there is no such directory on this machine.");
    }
    out.push_back(real);
  }
  return out;
}

// HOST, HOST:PORT or HOST:*, after "http://" if it has no TLS. Nothing: the option was not given.
Expected<std::optional<std::vector<std::string>>> wanted_registries(const UpOptions& options) {
  if (options.registries.empty()) return std::nullopt;
  if (options.registries == std::vector{std::string(kNone)}) return std::vector<std::string>();
  for (const std::string& each : options.registries) {
    const std::string_view name =
        std::string_view(each).substr(each.starts_with(kPlainRegistry) ? kPlainRegistry.size() : 0);
    if (name.empty() || name.find_first_of("/@ ?#") != std::string_view::npos) {
      return invalid("--allow-registry " + each + ": expected HOST, HOST:PORT or HOST:*, or http:// before it.");
    }
  }
  return options.registries;
}

json::array to_json(const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); }

// The port of the configured server, where that is this machine.
std::optional<std::uint16_t> local_port(const opensandbox::ConnectionConfig& config) {
  std::string host = config.base_url();
  host.erase(0, host.find("://") + 3);
  host.erase(std::min(host.find('/'), host.size()));
  const std::size_t colon = host.rfind(':');
  const std::string name = host.substr(0, colon);
  if (name != "localhost" && !name.starts_with("127.")) return std::nullopt;
  if (colon == std::string::npos) return 80;
  return parse_number<std::uint16_t>(std::string_view(host).substr(colon + 1));
}

std::optional<std::string> server_key(const CommandIo& context) {
  auto key = context.environment()("OPENSANDBOX_SERVER_API_KEY");
  if (key && key->empty()) key.reset();
  return key;
}

// Of a new service: the configured key, if that is not another server's.
std::string first_key(const CommandIo& context, std::uint16_t port) {
  const Config& config = context.config();
  const bool fits = !config.key_domain || opensandbox::key_may_go({*config.key_domain, "http"},
                                                                  {"127.0.0.1:" + std::to_string(port), "http"});
  return config.api_key && !config.api_key->empty() && fits ? *config.api_key : new_hex_id();
}

// How the user's next command reaches the service.
struct Reach {
  std::string profile;  // saved under this name; empty: not saved
  bool by_itself = false;
  std::string problem = {};  // why it could not be saved, or does not count
};

Reach save(CommandIo& context, const fs::path& directory, const ServiceRecord& service, bool wanted) {
  Reach out;
  if (wanted) {
    const fs::path file = fs::absolute(context.config_path());
    const auto saved = save_profile(file, {service.domain(), service.key});
    if (!saved) {
      out.problem = "Address and key could not be saved: " + saved.error().message;
    } else {
      out.profile = saved->name;
      if (auto ok = remember_profile(directory, {file, saved->name}); !ok) out.problem = ok.error().message;
    }
  }
  const auto config = resolve_config(context.flags, context.environment(), context.config_path());
  out.by_itself = config && config->api_key == service.key && config->protocol == "http" &&
                  opensandbox::key_may_go({service.domain()}, {config->domain.value_or(kDefaultDomain)});
  const auto variable = [&](const char* name) { return context.environment()(name).value_or(""); };
  const std::string domain = variable("OPEN_SANDBOX_DOMAIN"), key = variable("OPEN_SANDBOX_API_KEY");
  const char* other = nullptr;
  if (!domain.empty() && !opensandbox::key_may_go({service.domain()}, {domain})) other = "OPEN_SANDBOX_DOMAIN";
  if (!key.empty() && key != service.key) other = "OPEN_SANDBOX_API_KEY";
  if (!out.by_itself && other != nullptr && out.problem.empty()) {
    out.problem = std::string(other) + " in the environment names another server or key; unset it to use this one.";
  }
  return out;
}

std::string count(std::size_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "es");
}

void show(CommandIo& context, const fs::path& directory, const StartedService& started, const Reach& reach,
          bool foreground) {
  const ServiceRecord& service = started.record;
  const std::string stop = local_command("down", directory);
  if (context.out().structured()) {
    return context.out().data(json::object{
        {"url", service.url()},
        {"domain", service.domain()},
        {"api_key", service.key},
        {"profile", reach.profile.empty() ? json::value(nullptr) : json::value(json::string(reach.profile))},
        {"directory", directory.string()},
        {"status", "running"},
        {"started", !started.was_running},
        {"sandboxes_running", started.sandboxes},
        {"host_paths", to_json(service.host_paths)},
        {"registries", to_json(service.registries)},
        {"stop", stop}});
  }
  std::string said = "OpenSandbox " + std::string(started.was_running && !foreground ? "runs already" : "is up") +
                     " on " + service.url() + ".";
  if (started.sandboxes > 0) {
    said += " " + count(started.sandboxes, "sandbox") + (started.sandboxes == 1 ? " runs." : " run.");
  }
  said += "\n\n";
  const bool by_profile = !reach.by_itself && !reach.profile.empty();
  if (!reach.by_itself && !by_profile) {
    said += "  export OPEN_SANDBOX_DOMAIN=" + service.domain() + " OPEN_SANDBOX_API_KEY=" + service.key + "\n";
  }
  said += std::string("  osb ") + (by_profile ? "--profile " + reach.profile + " " : "") + "run host -- echo hello\n\n";
  if (!reach.profile.empty()) {
    said += "Address and key: profile '" + reach.profile + "' in " + context.config_path().string() +
            "\nFor SDKs: eval \"$(osb " + (by_profile ? "--profile " + reach.profile + " " : "") + "config env)\"\n";
  } else {
    said += "Anyone with this key can run code here. Keep it secret.\n";
  }
  if (!service.host_paths.empty()) {
    said += "Sandboxes may mount:";
    for (const std::string& path : service.host_paths) said += " " + path;
    said += "\n";
  }
  if (!service.registries.empty()) {
    said += "Images may come from this machine and private networks:";
    for (const std::string& registry : service.registries) said += " " + registry;
    said += "\n";
  }
  said += "Logs: " + directory.string() + "/*.log\nStop: " + (foreground ? "Ctrl-C" : stop) +
          " (sandboxes, images, snapshots and volumes stay)\n";
  context.out().text(said);
  if (!reach.problem.empty()) context.out().warning(reach.problem);
}

// Whether the server that answers belongs to `directory`, and `up` has work to do there.
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

Outcome stay(CommandIo& context, const fs::path& directory, const ServiceRecord& service, Foreground& foreground) {
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

Outcome up(CommandIo& context, const UpOptions& options) {
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
  auto host_paths = wanted_host_paths(options);
  if (!host_paths) return failed(host_paths.error());
  auto registries = wanted_registries(options);
  if (!registries) return failed(registries.error());
  LocalServiceOptions wanted;
  wanted.host_paths = std::move(*host_paths);
  wanted.registries = std::move(*registries);
  wanted.directory = directory;
  wanted.programs = program_directory();
  wanted.port = options.port;
  wanted.key = server_key(context);
  const std::uint16_t first_port = options.port.value_or(local_port(client->config()).value_or(8080));
  wanted.otherwise = {first_port, first_key(context, first_port)};
  Result<StartedService> service;
  {
    Spinner spinner(context.out(), "Starting");
    service = start_service(wanted, [&](std::string what) { spinner.update(std::move(what)); });
  }
  if (!service) {
    const bool daemon = service.error().code == Code::Unavailable;
    return failed(service.error(), daemon ? "'osb doctor' shows what this host lacks." : "");
  }
  const Reach reach = save(context, directory, service->record, !options.no_save);
  std::optional<Foreground> foreground;
  if (options.foreground) foreground.emplace();
  show(context, directory, *service, reach, options.foreground);
  return foreground ? stay(context, directory, service->record, *foreground) : 0;
}

}  // namespace

std::string local_command(std::string_view command, const fs::path& directory) {
  const std::string line = "osb " + std::string(command);
  return directory == kServiceDirectory ? line : line + " --dir " + directory.string();
}

void add_up_command(Command& root, CommandIo& context) {
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
  command
      .option("--allow-host-path", "DIR",
              "Sandboxes may mount this directory and all below it. Repeatable; kept until the option is given again; "
              "'none' allows none.",
              options.host_paths)
      .completes(Completes::Files);
  command.option("--allow-registry", "HOST",
                 "Images may come from this registry on this machine or on a private network: HOST, HOST:PORT or "
                 "HOST:*; http://HOST for one without TLS. Repeatable; kept until the option is given again; 'none' "
                 "allows none.",
                 options.registries);
  command.flag("--foreground", "Stay until Ctrl-C, then do as 'osb down'.", options.foreground);
  command.flag("--no-save", "Do not write address and key to the config file, as profile 'local'.", options.no_save);
  bool& ignored = command.values<bool>();
  command.flag("--save", "The default.", ignored).hidden();
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options] { return up(context, options); });
}

}  // namespace osb::cli
