#pragma once

#include <csignal>
#include <string>

#include "base/error.h"
#include "cli/local/service_record.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {

// Waits for the end of a service that runs in the foreground. Signals that come from its construction on are not
// lost.
class Foreground {
 public:
  struct End {
    int signal = 0;           // that this process got; 0: a daemon has ended
    std::string daemon = {};  // the name of the daemon that has ended
  };
  // Returns when SIGINT, SIGTERM or SIGHUP comes, or one of the daemons ends.
  Result<End> wait(const ServiceRecord& record);

 private:
  SignalFd signals_{SIGINT, SIGTERM, SIGHUP};
};

}  // namespace osb::cli
