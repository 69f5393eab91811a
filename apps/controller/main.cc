#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "async/race.h"
#include "async/run_loop.h"
#include "async/signals.h"
#include "base/id.h"
#include "base/log.h"
#include "controller/command_line.h"
#include "controller/crds/crds.h"
#include "controller/serve.h"
#include "kubernetes/cluster_config.h"

namespace osb::controller {
namespace {

int refuse(const std::string& why, int status = 1) {
  std::fprintf(stderr, "opensandbox-controller: %s\n", why.c_str());
  return status;
}

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

int print_crds(const std::string& plural) {
  bool found = false;
  for (const CrdFile& each : crds()) {
    if (!plural.empty() && !each.name.ends_with("_" + plural + ".yaml")) continue;
    if (found) std::fputs("---\n", stdout);
    std::fputs(crd_text(each).c_str(), stdout);
    found = true;
  }
  return found ? 0 : refuse("there is no CRD " + plural, 2);
}

Result<kubernetes::ClusterConfig> cluster_config(const CommandLine& line) {
  std::string file = line.kubeconfig;
  if (file.empty()) file = environment("KUBECONFIG").value_or("");
  if (!file.empty()) return kubernetes::load_kubeconfig(file, line.context);
  return kubernetes::in_cluster_config(environment);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

int start(const std::vector<std::string>& args) {
  auto line = parse_command_line(args);
  if (!line) return refuse(line.error().message, 2);
  if (line->help) return std::fputs(usage().c_str(), stdout), 0;
  if (line->version) return std::puts("opensandbox-controller " OSB_VERSION), 0;
  if (line->print_crds) return print_crds(line->crd);
  LogOptions log;
  log.level = line->log_level;
  log.format = line->log_format;
  if (auto configured = configure_log(log); !configured) return refuse(configured.error().message);
  auto config = cluster_config(*line);
  if (!config) return refuse(config.error().message);
  if (line->lease_namespace.empty()) line->lease_namespace = environment("POD_NAMESPACE").value_or(config->ns);
  line->controller.host = host_name();
  ignore_sigpipe();
  net::io_context io(1);
  SignalSet signals(io.get_executor(), {SIGTERM, SIGINT});
  Result<void> result;
  const auto life = [&]() -> net::awaitable<void> {
    using namespace race;
    const std::string identity = line->controller.host + "_" + new_uuid();
    auto ended = co_await (serve(io.get_executor(), *config, *line, identity) || signals.next());
    if (ended.index() == 0) result = std::get<0>(ended);
  };
  run_until_done(io, life());
  return result ? 0 : refuse(result.error().message);
}

}  // namespace
}  // namespace osb::controller

int main(int argc, char** argv) {
  try {
    return osb::controller::start(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "opensandbox-controller: %s\n", bug.what());
    return 1;
  }
}
