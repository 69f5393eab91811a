#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "cli/local/service_record.h"

namespace osb::cli {

struct DaemonPlan {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::filesystem::path log;  // the log of the run before is kept as LOG.old
  // User and group of the program, which then has no capability and cannot get one. 0: root with all of them.
  uid_t id = 0;
};

// Starts a program in a session of its own, with its output in the log, and returns when a line with "is ready" is
// there. A program that ends before that is an error with its last lines. Variables named OPENSANDBOX_* are kept from
// it: they would win over its files. `started` gets the process before it is ready; it goes on when this fails
// afterwards, so the caller has to stop it. SIGINT, SIGTERM and SIGHUP end the wait (Code::Cancelled).
Result<void> start_daemon(const DaemonPlan& plan, const std::function<Result<void>(DaemonProcess)>& started);

// The same wait for a program that another osb has started. False: it has ended.
Result<bool> wait_for_daemon(const DaemonProcess& process, const std::filesystem::path& log);

// The process that runs `program --config FILE`: an osb that was killed may have started one and not recorded it.
std::optional<DaemonProcess> find_daemon(const std::string& program, const std::filesystem::path& config);

// SIGTERM, and SIGKILL if it has not ended after twenty seconds. Nothing happens to one that has ended.
void stop_daemon(const DaemonProcess& process);

}  // namespace osb::cli
