#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/local/service_record.h"

namespace osb::cli {

// Starts a program in a session of its own, with its output in `log`, and returns when a line with "is ready" is
// there. A program that ends before that is an error with its last lines. Variables named OPENSANDBOX_* are kept from
// it: they would win over its files. `started` is told as soon as there is a process, which goes on when this fails
// afterwards: stop_daemon() is the caller's. SIGINT, SIGTERM and SIGHUP end the wait (Code::Cancelled).
Result<void> start_daemon(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                          const std::filesystem::path& log, const std::function<Result<void>(DaemonProcess)>& started);

// SIGTERM, and SIGKILL if it has not ended after twenty seconds. Nothing happens to one that has ended.
void stop_daemon(const DaemonProcess& process);

}  // namespace osb::cli
