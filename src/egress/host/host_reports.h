#pragma once

#include <optional>

#include "api/egress_link.h"
#include "async/task_group.h"
#include "egress/metrics/egress_metrics.h"
#include "egress/proxy/dns_proxy.h"
#include "egress/proxy/upstreams.h"
#include "egress/report/deny_webhook.h"
#include "otlp/sender.h"
#include "policy/changes.h"

namespace osb::egress {

// Reports of a host's process to its operator, about all sandboxes: metrics, denied names, log lines.
class HostReports {
 public:
  // The references outlive it.
  HostReports(net::any_io_executor executor, const Sandboxes& sandboxes, Upstreams& upstreams, ProcessUsage usage);

  // Applies sandboxd's settings; further messages change nothing.
  void start(const api::egress::Hello& hello);
  net::awaitable<void> close() { return tasks_.close(); }

  // They refer to this object.
  ProxyHooks hooks();
  static void changed(const std::string& id, const policy::Change& change, const Error* failed);

 private:
  void start_metrics(const api::egress::Hello& hello);
  void start_webhook(const api::egress::Hello& hello);
  std::unique_ptr<http::Connector> connector(const api::egress::Hello& hello);

  net::any_io_executor executor_;
  Upstreams& upstreams_;
  EgressMetrics metrics_;
  bool started_ = false, timed_ = false, log_names_ = false;
  std::optional<otlp::Sender> sender_;
  std::optional<DenyWebhook> webhook_;
  TaskGroup tasks_;
};

}  // namespace osb::egress
