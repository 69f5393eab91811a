#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "containerd/client.h"
#include "image/reference.h"

namespace osb::containerd {

struct CommitTarget {
  std::string container;
  std::string image;  // as the caller wrote it; empty for an unpause
  image::Reference reference;
};

// The words of a snapshot's job (docs/kubernetes.md): arguments, and variables of the environment.
struct CommandLine {
  enum class Action { Commit, Unpause, ShowHelp, ShowVersion } action = Action::Commit;
  std::string pod, ns;
  std::vector<CommitTarget> targets;
  std::string socket = kSocket;
  std::string credentials = "/var/run/opensandbox/registry/config.json";  // of docker login; may be missing
  std::string message = "/dev/termination-log";                           // the kubelet's file for the last words
  bool plain_http = false;
};

Result<CommandLine> parse_command_line(const std::vector<std::string>& args, const Labels& environment);
const char* usage();

}  // namespace osb::containerd
