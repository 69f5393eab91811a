#include "sandboxd/daemon/config.h"

#define TOML_EXCEPTIONS 0
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <toml++/toml.h>

#include "sys/spawn.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

// Reads keys of one section and remembers which are known, so that the rest can be refused.
class Section {
 public:
  Section(const toml::table& root, std::string name, std::string& error)
      : name_(std::move(name)), table_(root[name_].as_table()), error_(error) {
    if (root.contains(name_) && table_ == nullptr) say("", "expected a table");
  }

  void text(const char* key, std::string& out) {
    read(key, "a string", [&](const toml::node& node) {
      const auto value = node.value_exact<std::string>();
      if (value) out = *value;
      return value.has_value();
    });
  }
  void path(const char* key, std::filesystem::path& out) {
    std::string value = out.string();
    text(key, value);
    out = value;
  }
  void flag(const char* key, bool& out) {
    read(key, "true or false", [&](const toml::node& node) {
      const auto value = node.value_exact<bool>();
      if (value) out = *value;
      return value.has_value();
    });
  }
  template <typename T>
  void number(const char* key, T& out, std::int64_t min, std::int64_t max) {
    read(key, "a number from " + std::to_string(min) + " to " + std::to_string(max), [&](const toml::node& node) {
      const auto value = node.value_exact<std::int64_t>();
      if (!value || *value < min || *value > max) return false;
      out = static_cast<T>(*value);
      return true;
    });
  }
  void list(const char* key, const std::function<Result<void>(const std::string&)>& add) {
    std::string why;
    read(key, "a list of strings", [&](const toml::node& node) {
      const toml::array* array = node.as_array();
      if (array == nullptr) return false;
      for (const toml::node& each : *array) {
        const auto value = each.value_exact<std::string>();
        if (!value) return false;
        if (auto added = add(*value); !added && why.empty()) why = added.error().message;
      }
      return true;
    });
    if (!why.empty()) say(key, why);
  }
  template <typename F>
  void parsed(const char* key, F parse) {
    std::string value, why;
    text(key, value);
    if (value.empty()) return;
    if (auto done = parse(value); !done) say(key, done.error().message);
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> out;
    if (table_ == nullptr) return out;
    for (const auto& [key, node] : *table_) out.emplace_back(key.str());
    return out;
  }
  // A string, or a list of them.
  void words(const char* key, const std::function<void(const std::string&)>& add) {
    if (table_ != nullptr && table_->get(key) != nullptr && table_->get(key)->is_string()) {
      std::string word;
      text(key, word);
      add(word);
      return;
    }
    list(key, [&](const std::string& word) -> Result<void> { return add(word), Result<void>(); });
  }
  void say(const std::string& key, const std::string& why) {
    if (error_.empty()) error_ = "[" + name_ + "]" + (key.empty() ? "" : " " + key) + ": " + why;
  }
  // After all reads.
  void refuse_others() {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : *table_) {
      if (!known_.contains(key.str())) say(std::string(key.str()), "no such setting");
    }
  }

 private:
  void read(const char* key, const std::string& expected, const std::function<bool(const toml::node&)>& take) {
    known_.insert(key);
    const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    if (node != nullptr && !take(*node)) say(key, "expected " + expected);
  }
  const std::string name_;
  const toml::table* table_;
  std::string& error_;
  std::set<std::string, std::less<>> known_;
};

void read_daemon(Section s, DaemonConfig& out) {
  s.text("socket", out.socket);
  s.text("group", out.group);
  s.text("state_directory", out.sandbox.state_directory);
  s.text("run_directory", out.sandbox.run_directory);
  s.text("cgroup_parent", out.cgroup_parent);
  s.text("execd", out.sandbox.execd);
  s.parsed("log_level", [&](const std::string& text) -> Result<void> {
    auto level = parse_log_level(text);
    if (!level) return Failure(level.error());
    out.log_level = *level;
    return {};
  });
  s.parsed("log_format", [&](const std::string& text) -> Result<void> {
    if (text != "text" && text != "json") return fail(Code::InvalidRequest, "expected text or json");
    out.log_format = text == "json" ? LogFormat::Json : LogFormat::Text;
    return {};
  });
  s.refuse_others();
}

void read_sandbox(Section s, DaemonConfig& out) {
  s.number("default_pids", out.sandbox.default_pids, 16, 4 << 20);
  s.number("default_shm_bytes", out.sandbox.default_shm_bytes, 4096, std::int64_t{1} << 40);
  s.number("default_disk_bytes", out.sandbox.default_disk_bytes, 0, std::int64_t{1} << 50);
  s.flag("allow_host_network", out.sandbox.allow_host_network);
  s.text("exec_label", out.sandbox.exec_label);
  s.text("default_runtime", out.sandbox.default_runtime);
  s.list("allowed_host_paths", [&](const std::string& path) -> Result<void> {
    if (!path.starts_with("/")) return fail(Code::InvalidRequest, "'" + path + "' is not an absolute path");
    out.volumes.allowed_host_paths.emplace_back(path);
    return {};
  });
  s.parsed("host_ids", [&](const std::string& text) -> Result<void> {
    if (text != "same" && text != "foreign") return fail(Code::InvalidRequest, "expected same or foreign");
    out.volumes.host_ids = text == "same" ? VolumeConfig::HostIds::Same : VolumeConfig::HostIds::Foreign;
    return {};
  });
  s.refuse_others();
}

// `name = "/path"` or `name = ["/path", "--option"]`.
void read_runtimes(Section s, DaemonConfig& out) {
  for (const std::string& name : s.keys()) {
    OciProgram program;
    s.words(name.c_str(), [&](const std::string& word) { program.arguments.push_back(word); });
    if (program.arguments.empty() || !program.arguments.front().starts_with("/") || name == "native") {
      s.say(name, name == "native" ? "that is the name of sandboxd's own" : "expected an absolute path");
      continue;
    }
    program.path = program.arguments.front();
    program.arguments.erase(program.arguments.begin());
    out.sandbox.runtimes.insert_or_assign(name, std::move(program));
  }
}

// gVisor needs no configuration where it is installed.
void find_runtimes(DaemonConfig& out) {
  if (out.sandbox.runtimes.contains("runsc")) return;
  const char* path = std::getenv("PATH");
  if (auto found = sys::find_program("runsc", path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path)) {
    out.sandbox.runtimes.emplace("runsc", OciProgram{*found});
  }
}

void read_network(Section s, DaemonConfig& out) {
  NetworkConfig& network = out.network;
  s.parsed("subnet", [&](const std::string& text) -> Result<void> {
    auto subnet = parse_subnet(text);
    if (!subnet) return Failure(subnet.error());
    network.subnet = *subnet;
    return {};
  });
  s.number("mtu", network.mtu, 0, 65535);
  s.number("ready_slots", network.ready_slots, 0, 4096);
  s.number("first_id", network.first_id, 65536, std::int64_t{1} << 31);
  s.text("table", network.table);
  s.text("interface_prefix", network.interface_prefix);
  s.flag("answer_ping", network.answer_ping);
  bool blocked_given = false;
  s.list("blocked", [&](const std::string& text) -> Result<void> {
    if (!std::exchange(blocked_given, true)) network.blocked.clear();
    auto subnet = parse_subnet(text);
    if (!subnet) return Failure(subnet.error());
    network.blocked.push_back(*subnet);
    return {};
  });
  s.list("dns", [&](const std::string& text) -> Result<void> {
    if (auto address = parse_ipv4(text); !address) return Failure(address.error());
    network.dns.push_back(text);
    return {};
  });
  s.refuse_others();
  out.sandbox.dns = network.dns;
}

void read_images(Section s, DaemonConfig& out) {
  s.number("keep_bytes", out.images.keep_bytes, 0, std::int64_t{1} << 60);
  s.path("ca_file", out.images.ca_file);
  s.list("insecure_registries", [&](const std::string& name) -> Result<void> {
    out.images.insecure_registries.insert(name);
    return {};
  });
  s.list("allowed_directories", [&](const std::string& path) -> Result<void> {
    out.images.allowed_directories.emplace_back(path);
    return {};
  });
  s.refuse_others();
}

}  // namespace

Result<DaemonConfig> parse_config(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    return fail(Code::InvalidRequest, name + ", line " + std::to_string(parsed.error().source().begin.line) + ": " +
                                          std::string(parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  DaemonConfig out;
  std::string error;
  read_daemon(Section(root, "daemon", error), out);
  read_sandbox(Section(root, "sandbox", error), out);
  read_runtimes(Section(root, "runtimes", error), out);
  read_network(Section(root, "network", error), out);
  read_images(Section(root, "images", error), out);
  const std::set<std::string, std::less<>> sections = {"daemon", "sandbox", "runtimes", "network", "images"};
  for (const auto& [key, node] : root) {
    if (!sections.contains(key.str()) && error.empty()) error = "[" + std::string(key.str()) + "]: no such section";
  }
  if (!error.empty()) return fail(Code::InvalidRequest, name + ": " + error);
  find_runtimes(out);
  if (const std::string& runtime = out.sandbox.default_runtime;
      runtime != "native" && !out.sandbox.runtimes.contains(runtime)) {
    return fail(Code::InvalidRequest,
                name + ": [sandbox] default_runtime: '" + runtime + "' is not in [runtimes], and not in PATH");
  }
  if (auto valid = validate(out.network); !valid) return with_context(name + ": [network]", valid.error());
  complete_config(out);
  return out;
}

Result<DaemonConfig> load_config(const std::string& path, bool required) {
  auto text = sys::read_text(path, 1 << 20);
  if (!text && text.error().code == Code::NotFound && !required) return parse_config("", path);
  if (!text) return Failure(text.error());
  return parse_config(*text, path);
}

void complete_config(DaemonConfig& config) {
  const std::filesystem::path state = config.sandbox.state_directory;
  config.images.directory = state / "images";
  config.volumes.directory = state / "volumes";
  config.volumes.state_directory = state;
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  CommandLine out;
  const std::map<std::string, std::string CommandLine::*> values = {{"--config", &CommandLine::config_path},
                                                                    {"--state-dir", &CommandLine::state_directory},
                                                                    {"--run-dir", &CommandLine::run_directory},
                                                                    {"--socket", &CommandLine::socket},
                                                                    {"--execd", &CommandLine::execd}};
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string name = args[i];
    std::optional<std::string> value;
    if (const std::size_t equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (const auto known = values.find(name); known != values.end()) {
      if (!value && i + 1 < args.size()) value = args[++i];
      if (!value || value->empty()) return fail(Code::InvalidRequest, name + " needs a value");
      out.*known->second = *value;
      if (name == "--config") out.config_given = true;
    } else if (value) {
      return fail(Code::InvalidRequest, "unknown option " + name);
    } else if (name == "check") {
      out.action = CommandLine::Action::Check;
    } else if (name == "--json" && out.action == CommandLine::Action::Check) {
      out.json = true;
    } else if (name == "--help" || name == "-h" || name == "help") {
      out.action = CommandLine::Action::ShowHelp;
    } else if (name == "--version") {
      out.action = CommandLine::Action::ShowVersion;
    } else {
      return fail(Code::InvalidRequest, "unknown argument " + name);
    }
  }
  return out;
}

std::string_view usage() {
  return R"(sandboxd: makes sandboxes on this host, for the OpenSandbox server.

  sandboxd [OPTION...]            serve the API on a Unix socket
  sandboxd check [--json]         what this host supports, line by line; exit code 1: not enough

  --config FILE      settings (default /etc/opensandbox/sandboxd.toml, if it exists)
  --state-dir DIR    images, volumes, snapshots and sandboxes (default /var/lib/opensandbox)
  --run-dir DIR      sockets (default /run/opensandbox)
  --socket PATH      of the API (default RUN-DIR/sandboxd.sock)
  --execd FILE       the execd program (default: next to sandboxd)
  --version, --help

It needs root. Sandboxes go on living when it ends, and it finds them again when it starts.
)";
}

}  // namespace osb::sandboxd
