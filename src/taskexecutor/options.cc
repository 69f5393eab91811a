#include "taskexecutor/options.h"

#include <optional>

#include "base/json_escape.h"
#include "base/parse_number.h"

namespace osb::taskexecutor {
namespace {

Failure bad(std::string_view flag, std::string_view why) {
  return fail(Code::InvalidRequest, "--" + std::string(flag) + ": " + std::string(why));
}

// The words that the original flag parser takes for a bool.
std::optional<bool> parse_bool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

Result<void> set_number(int& out, std::string_view flag, std::string_view value) {
  const auto number = parse_number<int>(value);
  if (!number || *number < 0) return bad(flag, "expected a whole number of at least 0");
  out = *number;
  return {};
}

std::string* text_of(Options& options, std::string_view flag, std::string& unused) {
  if (flag == "data-dir") return &options.data_dir;
  if (flag == "listen-addr") return &options.listen_addr;
  if (flag == "main-container-name") return &options.main_container;
  if (flag == "log-dir") return &options.log_dir;
  if (flag == "cri-socket") return &unused;
  return nullptr;
}

int* number_of(Options& options, std::string_view flag) {
  if (flag == "log-max-size") return &options.log_max_megabytes;
  if (flag == "log-max-backups") return &options.log_max_backups;
  if (flag == "log-max-age") return &options.log_max_days;
  return nullptr;
}

}  // namespace

Result<Options> parse_options(std::span<const std::string_view> args,
                              const std::map<std::string, std::string, std::less<>>& env) {
  Options out;
  std::string unused;
  const auto variable = [&](std::string_view name, std::string& field) {
    if (const auto it = env.find(name); it != env.end() && !it->second.empty()) field = it->second;
  };
  variable("DATA_DIR", out.data_dir);
  variable("LISTEN_ADDR", out.listen_addr);
  variable("MAIN_CONTAINER_NAME", out.main_container);
  if (const auto it = env.find("ENABLE_SIDECAR_MODE"); it != env.end()) out.sidecar = it->second == "true";

  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string_view word = args[i];
    if (word.size() < 2 || word[0] != '-') return fail(Code::InvalidRequest, "not a flag: " + in_quotes(word));
    word.remove_prefix(word[1] == '-' ? 2 : 1);
    const std::size_t equals = word.find('=');
    const std::string_view flag = word.substr(0, equals);
    std::optional<std::string_view> value;
    if (equals != std::string_view::npos) value = word.substr(equals + 1);
    if (flag == "h" || flag == "help") {
      out.action = Options::Action::ShowHelp;
    } else if (flag == "version") {
      out.action = Options::Action::ShowVersion;
    } else if (flag == "enable-sidecar-mode") {
      const auto on = parse_bool(value.value_or("true"));
      if (!on) return bad(flag, "expected true or false");
      out.sidecar = *on;
    } else if (std::string* text = text_of(out, flag, unused); text != nullptr || number_of(out, flag) != nullptr) {
      if (!value && i + 1 == args.size()) return bad(flag, "needs a value");
      if (!value) value = args[++i];
      if (text == nullptr) {
        if (auto set = set_number(*number_of(out, flag), flag, *value); !set) return Failure(set.error());
      } else {
        *text = *value;
      }
    } else {
      return fail(Code::InvalidRequest, "unknown flag: " + in_quotes(args[i]));
    }
  }
  if (out.data_dir.empty()) return bad("data-dir", "must not be empty");
  if (out.log_dir.empty()) return bad("log-dir", "must not be empty");
  return out;
}

const char* usage() {
  return "Usage: task-executor [flags]\n"
         "       task-executor --install DIR\n"
         "Runs the task that the controller sends, one at a time; or copies itself to DIR/task-executor.\n"
         "  --data-dir DIR              tasks and their output (DATA_DIR; /var/lib/sandbox/tasks)\n"
         "  --listen-addr ADDRESS       (LISTEN_ADDR; 0.0.0.0:5758)\n"
         "  --enable-sidecar-mode       run tasks in the namespaces of the main container (ENABLE_SIDECAR_MODE=true)\n"
         "  --main-container-name NAME  whose processes have SANDBOX_MAIN_CONTAINER=NAME (MAIN_CONTAINER_NAME; main)\n"
         "  --log-dir DIR               for task-executor.log (logs)\n"
         "  --log-max-size MB           of one log file (100)\n"
         "  --log-max-backups COUNT     older log files that are kept (10)\n"
         "  --log-max-age DAYS          older log files are removed when the program starts (7)\n"
         "  --cri-socket PATH           accepted, not used\n"
         "  --version, --help\n";
}

}  // namespace osb::taskexecutor
