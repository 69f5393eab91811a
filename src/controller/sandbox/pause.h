#pragma once

#include <string>
#include <vector>

#include "async/net.h"
#include "controller/cluster.h"
#include "controller/model/batch_sandbox.h"

namespace osb::controller {

// The next step of a pause or resume.
enum class PauseStep { None, StartPause, ContinuePause, StartResume, ContinueResume };

// The flag acts only where it can: true on a running sandbox, false on a paused one. Other changes of the object do not
// repeat it; a new generation only allows another attempt after a failure.
PauseStep plan_pause(const BatchSandbox& sandbox);

// A pod's spec as the template of the pods that replace it.
json::object template_from_pod(const json::object& pod);
// The template with the images of a snapshot, and the secret that pulls them; `pull_secret` may be empty.
json::object template_from_snapshot(const json::object& pod_template, const json::object& snapshot,
                                    const std::string& pull_secret);

// Saves the root file system of a sandbox in a SandboxSnapshot and ends its pod; later makes the pod again from it. One
// replica only.
class Pauser {
 public:
  struct Options {
    std::string pull_secret;
  };
  // `cluster` outlives it.
  Pauser(Cluster& cluster, Options options) : cluster_(cluster), options_(std::move(options)) {}

  // Does the next step. True: the pass goes on with pods and status; false: it is over, an event brings the next one.
  net::awaitable<Result<bool>> step(BatchSandbox& sandbox, const std::vector<PodFacts>& pods, bool tasks_stopped);
  // A sandbox that runs needs its snapshot no longer.
  net::awaitable<Result<void>> drop_snapshot(const BatchSandbox& sandbox);

 private:
  net::awaitable<Result<bool>> start_pause(BatchSandbox& sandbox);
  net::awaitable<Result<bool>> continue_pause(BatchSandbox& sandbox, const std::vector<PodFacts>& pods);
  net::awaitable<Result<void>> finish_pause(BatchSandbox& sandbox, const std::vector<PodFacts>& pods);
  net::awaitable<Result<bool>> continue_resume(BatchSandbox& sandbox, const std::vector<PodFacts>& pods);
  struct Failed {
    std::string type, reason, message;  // a condition; an empty type: none
    std::string cleared;                // a condition that no longer holds
  };
  // Writes the phase and acknowledges the generation.
  net::awaitable<Result<void>> enter(BatchSandbox& sandbox, std::string phase, Failed failed);
  ObjectPtr snapshot_of(const BatchSandbox& sandbox);

  Cluster& cluster_;
  Options options_;
};

}  // namespace osb::controller
