#pragma once

#include <memory>
#include <optional>
#include <string>

#include "http/client.h"
#include "kubernetes/cluster_config.h"
#include "kubernetes/text_file.h"
#include "tls/context.h"

namespace osb::kubernetes {

// The credentials of a cluster in their present form. Files are looked at again before each use. While an exchanged
// file cannot be read (its writer is in the middle of it), the credential that was read last stays in use.
class Access {
 public:
  explicit Access(ClusterConfig config);

  const ClusterConfig& config() const { return config_; }
  // "https://host:port", and the path below which the API is ("" mostly).
  const std::string& origin() const { return origin_; }
  const std::string& prefix() const { return prefix_; }

  // The bearer token; empty when there is none.
  Result<std::string> token();
  // After an answer 401: the next token() reads the file. False: the token is in the configuration and stays the same.
  bool forget_token();
  // Settings for new connections; null for http.
  Result<std::shared_ptr<const tls::ClientContext>> context();
  // Whether certificates were exchanged since the last context(): open connections still show the old one.
  bool certificates_changed() const;
  std::string tls_name() const;

 private:
  Result<std::shared_ptr<const tls::ClientContext>> make_context();

  ClusterConfig config_;
  std::string origin_, prefix_, host_;
  std::optional<WatchedFile> token_file_, ca_file_, certificate_file_, key_file_;
  std::string token_;
  bool token_stale_ = false;
  std::shared_ptr<const tls::ClientContext> context_;
};

// Opens connections to the cluster of `access`, which outlives it, whatever origin is asked for. Connections to a
// machine that is gone are noticed within two minutes.
std::unique_ptr<http::Connector> make_cluster_connector(net::any_io_executor executor, Access& access);

}  // namespace osb::kubernetes
