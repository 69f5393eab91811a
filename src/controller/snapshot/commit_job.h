#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/model/batch_sandbox.h"

namespace osb::controller {

// Where snapshots go and which program makes them.
struct SnapshotOptions {
  std::string committer_image = "opensandbox/image-committer:" OSB_VERSION;  // empty: none; snapshots fail and say so
  std::string containerd_socket = "/var/run/containerd/containerd.sock";
  std::chrono::seconds job_timeout{600};
  std::string registry;  // "registry.example/snapshots"; empty: none
  bool registry_insecure = false;
  std::string push_secret;  // of type kubernetes.io/dockerconfigjson
};

struct CommittedContainer {
  std::string name, image, digest;
};

// The image of a container's snapshot. `generation` is used for snapshots that a BatchSandbox controls.
std::string snapshot_image(const std::string& registry, const json::object& snapshot, const BatchSandbox& sandbox,
                           const std::string& container);

struct CommitSource {
  std::string pod, node;
  std::vector<CommittedContainer> containers;
};
// The job that saves the containers, and the one that lets them go on after a failure.
json::object commit_job(const json::object& snapshot, const CommitSource& source, const SnapshotOptions& options);
json::object unpause_job(const json::object& snapshot, const CommitSource& source, const SnapshotOptions& options);
std::string commit_job_name(const json::object& snapshot);
std::string unpause_job_name(const json::object& snapshot);

enum class JobState { Running, Succeeded, Failed };
JobState job_state(const json::object& job);
// The message of a failed job, for people, with the program's reason if it has said one.
std::string job_failure(const json::object& job, std::string_view reason);

// The last words of the program in a pod of its job. Nothing: it runs, or has said nothing.
struct LastWords {
  std::string message, finished_at;
};
std::optional<LastWords> last_words(const json::object& pod);

// Digests of the program's last message, {"containers":[{"name","image","digest"}]}; empty when it makes no sense.
std::vector<CommittedContainer> parse_committed(std::string_view message);

}  // namespace osb::controller
