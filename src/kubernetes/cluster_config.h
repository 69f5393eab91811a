#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::kubernetes {

// A credential that is in the configuration itself or in a file. Files are read again when they change: a cluster
// exchanges tokens and certificates while programs run.
struct Material {
  std::string inline_text;
  std::filesystem::path file;
  bool empty() const { return inline_text.empty() && file.empty(); }
};

// Where a cluster is, and how a program shows who it is.
struct ClusterConfig {
  std::string server;         // "https://host:port", perhaps with a path below which the API is
  std::string tls_name;       // the name in the server's certificate; empty: the host of `server`
  Material ca;                // empty: the system's roots
  bool insecure = false;      // accepts every certificate
  Material certificate, key;  // of the client
  Material token;
  std::string ns = "default";
  std::string origin;  // for messages: the file and context, or "the pod's service account"
};

// A kubeconfig. `context` empty: the current one. Relative paths start at `directory`. Ways to log in that need another
// program, a proxy, or a password are refused by their name.
Result<ClusterConfig> parse_kubeconfig(const std::string& text, const std::filesystem::path& directory,
                                       std::string_view context = {});
Result<ClusterConfig> load_kubeconfig(const std::filesystem::path& file, std::string_view context = {});

// The service account that a cluster gives to each pod. `environment` answers like getenv.
using Environment = std::function<std::optional<std::string>(std::string_view)>;
Result<ClusterConfig> in_cluster_config(
    const Environment& environment,
    const std::filesystem::path& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace osb::kubernetes
