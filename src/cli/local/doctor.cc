#include <filesystem>
#include <unistd.h>

#include "api/engine_walls.h"
#include "api/json.h"
#include "cli/local/http_get.h"
#include "cli/local/programs.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

// The checks, in order. A failed check keeps osb from working; a warning does not.
class Findings {
 public:
  void ok(std::string what, std::string detail) { add(std::move(what), "ok", std::move(detail), ""); }
  void skipped(std::string what, std::string detail) { add(std::move(what), "skipped", std::move(detail), ""); }
  void warning(std::string what, std::string detail, std::string advice) {
    add(std::move(what), "warning", std::move(detail), std::move(advice));
  }
  void failed(std::string what, std::string detail, std::string advice) {
    failed_ = true;
    add(std::move(what), "failed", std::move(detail), std::move(advice));
  }
  bool any_failed() const { return failed_; }
  const json::array& rows() const { return rows_; }

 private:
  void add(std::string what, std::string_view state, std::string detail, std::string advice) {
    rows_.push_back(json::object{{"check", what}, {"state", state}, {"detail", detail}, {"advice", advice}});
  }
  json::array rows_;
  bool failed_ = false;
};

std::string string_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

// "version" of GET /openapi.json.
std::string version_of(const std::string& document) {
  const auto value = api::parse_json(document);
  const json::object* object = value ? value->if_object() : nullptr;
  const json::value* info = object != nullptr ? object->if_contains("info") : nullptr;
  return info != nullptr && info->is_object() ? string_of(info->get_object(), "version") : "";
}

std::string message_of(const std::string& body) {
  const auto value = api::parse_json(body);
  const json::object* object = value ? value->if_object() : nullptr;
  const std::string message = object != nullptr ? string_of(*object, "message") : "";
  return message.empty() ? body.substr(0, 200) : message;
}

void check_key(const Config& config, const opensandbox::Client& client, Findings& findings) {
  const auto listed =
      opensandbox::SandboxManager(client).list({.states = {}, .metadata = {}, .page = 1, .page_size = 1});
  if (listed) {
    findings.ok("api key", client.config().api_key.empty() ? "none, and none is asked for" : "accepted");
  } else if (config.withheld && listed.error().status == 401) {
    findings.failed("api key", "the key of " + config.withheld->source + " belongs to " + config.withheld->domain,
                    "name this server's key: --api-key or OPEN_SANDBOX_API_KEY");
  } else if (listed.error().status == 401 || listed.error().status == 403) {
    findings.failed("api key", client.config().api_key.empty() ? "none is configured" : "refused by the server",
                    "set OPEN_SANDBOX_API_KEY, or: osb config set connection.api_key KEY");
  } else {
    findings.failed("api", listed.error().message, "look at the server's log");
  }
}

// Shows the features of the server; a feature that it does not have is not a fault. A wall is told by itself.
void check_features(const opensandbox::Client& client, Findings& findings) {
  const auto said = opensandbox::SandboxManager(client).request("GET", "/capabilities");
  const auto value = said ? api::parse_json(*said) : Result<json::value>(fail(Code::Unavailable, ""));
  const json::object* object = value ? value->if_object() : nullptr;
  const json::value* features = object != nullptr ? object->if_contains("features") : nullptr;
  if (features == nullptr || !features->is_array()) return findings.skipped("features", "this server does not tell");
  std::string has, lacks;
  for (const json::value& each : features->get_array()) {
    const json::object* feature = each.if_object();
    const std::string name = feature != nullptr ? string_of(*feature, "name") : "";
    const json::value* available = feature != nullptr ? feature->if_contains("available") : nullptr;
    if (name.empty() || available == nullptr || !available->is_bool()) continue;
    std::string& list = available->get_bool() ? has : lacks;
    list += (list.empty() ? "" : ", ") + name;
    if (name == "closedNetworks" && !available->get_bool()) {
      findings.warning(
          "closed networks",
          "sandboxes reach the host, private networks and metadata services: " + string_of(*feature, "reason"),
          "for an engine docs/docker.md, Network of containers, has a table of nftables that closes them");
    }
  }
  findings.ok("features", has + (lacks.empty() ? "" : "; not here: " + lacks));
}

// False: no server answers.
bool check_server(const Config& config, const opensandbox::Client& client, Findings& findings) {
  std::string base = client.config().base_url();
  const std::string root = base.substr(0, base.rfind("/v1"));
  if (auto ping = client.ping(); !ping) {
    findings.failed("server", root + ": " + ping.error().message,
                    "start one with 'osb up', or name it: --domain, OPEN_SANDBOX_DOMAIN");
    return false;
  }
  const auto document = http_get(root + "/openapi.json");
  const std::string version = document && document->status == 200 ? version_of(document->body) : "";
  findings.ok("server", root + (version.empty() ? "" : ", version " + version));
  if (!version.empty() && version != OSB_VERSION) {
    findings.warning("versions", "osb is " OSB_VERSION ", the server " + version, "install the same version of both");
  }
  check_key(config, client, findings);
  check_features(client, findings);
  const auto ready = http_get(root + "/health/ready");
  if (!ready || ready->status == 404) {
    findings.skipped("backend", "this server does not tell");
  } else if (ready->status == 200) {
    findings.ok("backend", "answers the server");
  } else {
    const std::string why = message_of(ready->body);
    findings.failed("backend", why,
                    why.contains("sandboxd")
                        ? "is sandboxd running? 'systemctl status sandboxd', and the server's native.socket names its "
                          "socket"
                        : "the server's log says more");
  }
  return true;
}

bool is_local(const opensandbox::Client& client) {
  const std::string url = client.config().base_url();
  const std::string_view host = std::string_view(url).substr(url.find("://") + 3);
  return host.starts_with("localhost") || host.starts_with("127.") || host.starts_with("[::1]");
}

void check_programs(Findings& findings) {
  const std::filesystem::path directory = program_directory();
  for (const char* name : {"sandboxd", "execd", "opensandbox-server"}) {
    const auto said = ::access((directory / name).c_str(), X_OK) == 0
                          ? run_program_for_output(directory / name, {"--version"})
                          : Result<ProgramOutput>(fail(Code::NotFound, ""));
    if (!said || said->code != 0) {
      findings.warning(name, "not found in " + directory.string(), "'osb up' needs it; a server elsewhere does not");
      continue;
    }
    std::string line = said->text.substr(0, said->text.find('\n'));
    findings.ok(name, line + " in " + directory.string());
  }
}

// The checks of sandboxd for this host; a missing optional feature is a warning.
void check_kernel(Findings& findings) {
  const std::filesystem::path sandboxd = program_directory() / "sandboxd";
  if (::access(sandboxd.c_str(), X_OK) != 0) return findings.skipped("kernel", "needs sandboxd");
  if (::geteuid() != 0) return findings.skipped("kernel", "only root can look; try: sudo osb doctor");
  const auto said = run_program_for_output(sandboxd, {"check", "--json"});
  const auto value = said ? api::parse_json(said->text) : Result<json::value>(Failure(said.error()));
  const json::object* object = value ? value->if_object() : nullptr;
  const json::value* checks = object != nullptr ? object->if_contains("checks") : nullptr;
  if (checks == nullptr || !checks->is_array()) {
    return findings.failed("kernel", "'sandboxd check' did not work", "run it by hand");
  }
  for (const json::value& each : checks->get_array()) {
    const json::object* row = each.if_object();
    const auto text = [&](const char* name) { return row != nullptr ? string_of(*row, name) : std::string(); };
    if (text("state") == "ok") {
      findings.ok(text("what"), text("detail"));
    } else if (text("state") == "missing" || text("state") == "degraded") {
      findings.warning(text("what"), text("detail"), text("advice"));
    } else {
      findings.failed(text("what"), text("detail"), text("advice"));
    }
  }
}

// Whether systemd makes the engine's cgroups, and there is no slice as docs/limits.md describes it.
bool needs_slice(const json::value& info) {
  const json::object* object = info.if_object();
  const json::value* driver = object != nullptr ? object->if_contains("CgroupDriver") : nullptr;
  if (driver == nullptr || !driver->is_string() || driver->get_string() != "systemd") return false;
  for (const char* place : {"/etc", "/run", "/usr/lib", "/lib"}) {
    if (::access((std::string(place) + "/systemd/system/opensandbox.slice").c_str(), F_OK) == 0) return false;
  }
  return true;
}

// The container engine of this host, for servers that use it. Nothing to say where there is none.
void check_engine(const CommandIo& context, Findings& findings) {
  constexpr std::string_view kUnix = "unix://";
  const std::string engine = context.environment()("DOCKER_HOST").value_or("unix:///var/run/docker.sock");
  if (!engine.starts_with(kUnix) || ::access(engine.substr(kUnix.size()).c_str(), R_OK | W_OK) != 0) return;
  const auto said = http_get("unix:" + engine.substr(kUnix.size()), "/info");
  const auto info = said && said->status == 200 ? api::parse_json(said->body)
                                                : Result<json::value>(fail(Code::Unavailable, "it does not answer"));
  if (!info) {
    return findings.warning("container engine", engine + ": " + info.error().message,
                            "only servers with [runtime] type = \"docker\" need it");
  }
  auto missing = api::missing_engine_walls(*info);
  if (needs_slice(*info)) {
    missing.emplace_back(
        "a limit of all sandboxes together: make opensandbox.slice and name it in [docker] cgroup_parent");
  }
  for (const std::string& wall : missing) {
    findings.warning("container engine", engine + " lacks " + wall,
                     "for servers with [runtime] type = \"docker\": docs/docker.md, Walls");
  }
  if (missing.empty()) findings.ok("container engine", engine + " has all walls that the server asks for");
}

void examine(CommandIo& context, Findings& findings) {
  const std::filesystem::path path = context.config_path();
  std::error_code ignored;
  if (auto loaded = context.load_config(); !loaded) {
    return findings.failed("config", loaded.error().message, "correct it, or start anew: osb config init --force");
  }
  findings.ok("config",
              std::filesystem::exists(path, ignored) ? path.string() : path.string() + " does not exist; defaults");
  auto client = context.client();
  if (!client) return findings.failed("config", client.error().message, "osb config show");
  const bool answers = check_server(context.config(), *client, findings);
  if (answers && !is_local(*client)) return findings.skipped("this host", "the server is elsewhere");
  check_programs(findings);
  check_kernel(findings);
  check_engine(context, findings);
}

Outcome doctor(CommandIo& context) {
  Findings findings;
  {
    const Spinner spinner(context.out(), "Looking around");
    examine(context, findings);
  }
  if (context.out().structured()) {
    context.out().data(
        json::object{{"ok", !findings.any_failed()}, {"version", OSB_VERSION}, {"checks", findings.rows()}});
  } else {
    for (const json::value& row : findings.rows()) {
      const auto text = [&](const char* name) { return std::string(row.at(name).as_string()); };
      std::string line = text("check");
      line.resize(std::max<std::size_t>(line.size(), 18), ' ');
      line += " " + text("state");
      line.resize(std::max<std::size_t>(line.size(), 27), ' ');
      context.out().text(line + " " + text("detail") + "\n");
      if (!text("advice").empty()) context.out().text(std::string(28, ' ') + "-> " + text("advice") + "\n");
    }
  }
  return findings.any_failed() ? 1 : 0;
}

}  // namespace

void add_doctor_command(Command& root, CommandIo& context) {
  Command& command = root.command("doctor", "Check configuration, server, backend and kernel, and say what to do.");
  command.details("Exit code 1 when something keeps osb from working. Warnings concern optional features.");
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.without_config();
  command.action([&context] { return doctor(context); });
}

}  // namespace osb::cli
