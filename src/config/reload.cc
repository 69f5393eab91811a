#include "config/reload.h"

namespace osb::config {

Changes compare(const ServerConfig& running, const ServerConfig& wanted) {
  Changes out;
  const auto live = [&](std::string_view key, const auto& a, const auto& b) {
    if (!(a == b)) out.live.emplace_back(key);
  };
  const auto restart = [&](std::string_view key, const auto& a, const auto& b) {
    if (!(a == b)) out.restart.emplace_back(key);
  };
  const ServerSection &s = running.server, &t = wanted.server;
  live("[server] api_key", s.api_key, t.api_key);
  live("[server] eip", s.eip, t.eip);
  live("[server] headerless_clients", s.headerless_clients, t.headerless_clients);
  live("[server] max_sandbox_timeout_seconds", s.max_sandbox_timeout, t.max_sandbox_timeout);
  live("[server] timeout_keep_alive", s.timeout_keep_alive, t.timeout_keep_alive);
  live("[server] limit_concurrency", s.limit_concurrency, t.limit_concurrency);
  live("[log]", running.log, wanted.log);
  live("[admission]", running.admission, wanted.admission);
  live("[storage] allowed_host_paths", running.storage.allowed_host_paths, wanted.storage.allowed_host_paths);
  live("[renew_intent] enabled", running.renew_intent.enabled, wanted.renew_intent.enabled);
  live("[renew_intent] min_interval_seconds", running.renew_intent.min_interval, wanted.renew_intent.min_interval);

  restart("[server] host", s.host, t.host);
  restart("[server] port", s.port, t.port);
  restart("[server] backlog", s.backlog, t.backlog);
  restart("[runtime]", running.runtime, wanted.runtime);
  restart("[native]", running.native, wanted.native);
  restart("[docker]", running.docker, wanted.docker);
  restart("[kubernetes]", running.kubernetes, wanted.kubernetes);
  restart("[agent_sandbox]", running.agent_sandbox, wanted.agent_sandbox);
  restart("[ingress]", running.ingress, wanted.ingress);
  restart("[egress]", running.egress, wanted.egress);
  restart("[storage] volume_default_size", running.storage.volume_default_size, wanted.storage.volume_default_size);
  restart("[storage] ossfs_mount_root", running.storage.ossfs_mount_root, wanted.storage.ossfs_mount_root);
  restart("[store]", running.store, wanted.store);
  restart("[secure_runtime]", running.secure_runtime, wanted.secure_runtime);
  restart("[renew_intent.redis]", running.renew_intent.redis, wanted.renew_intent.redis);
  return out;
}

}  // namespace osb::config
