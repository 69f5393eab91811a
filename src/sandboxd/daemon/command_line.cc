#include <map>
#include <optional>

#include "sandboxd/daemon/config.h"

namespace osb::sandboxd {

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
    } else if (name == "--print-settings") {  // both for scripts/settings
      out.action = CommandLine::Action::PrintSettings;
    } else if (name == "--print-example") {
      out.action = CommandLine::Action::PrintExample;
    } else {
      return fail(Code::InvalidRequest, "unknown argument " + name);
    }
  }
  return out;
}

const char* usage() {
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
