#include "egress/host/host_reports.h"

#include "egress/report/log_lines.h"
#include "egress/report/own_connector.h"

namespace osb::egress {
namespace {

constexpr std::size_t kShare = 64;  // denied names of one sandbox that wait for the webhook

Logger about(const std::string& id) { return Logger().with("sandbox_id", id); }

}  // namespace

HostReports::HostReports(net::any_io_executor executor, const Sandboxes& sandboxes, Upstreams& upstreams,
                         ProcessUsage usage)
    : executor_(executor),
      upstreams_(upstreams),
      metrics_(sandboxes, std::move(usage), {}, {}),
      tasks_(std::move(executor)) {}

void HostReports::start(const api::egress::Hello& hello) {
  if (std::exchange(started_, true)) return;
  log_names_ = hello.log_names;
  if (!hello.otlp_endpoint.empty()) start_metrics(hello);
  if (!hello.deny_webhook.empty()) start_webhook(hello.deny_webhook);
}

// No TLS: its roots are files, and this process opens none.
void HostReports::start_metrics(const api::egress::Hello& hello) {
  auto collector = otlp::Collector::from_endpoint(hello.otlp_endpoint);
  if (!collector) return log_error("metrics are not sent", {{"error", collector.error().message}});
  collector->interval = hello.otlp_interval;
  timed_ = true;
  sender_.emplace(std::move(*collector), make_own_connector(executor_, upstreams_, {}, false));
  tasks_.spawn("metrics", sender_->run([this] { return metrics_.document(); }));
}

void HostReports::start_webhook(const std::string& url) {
  auto parsed = http::Url::parse(url);
  if (!parsed) return log_error("denied names are not sent", {{"error", parsed.error().message}});
  webhook_.emplace(executor_, make_own_connector(executor_, upstreams_, {}, false), std::move(*parsed),
                   DenyWebhook::Options{.share = kShare});
  tasks_.spawn("webhook", webhook_->run());
}

ProxyHooks HostReports::hooks() {
  return {.timed = &timed_,
          .denied =
              [this](const Sandbox& sandbox, std::string_view name) {
                if (webhook_) webhook_->denied(sandbox.id, name);
              },
          .failed =
              [this](const Sandbox& sandbox, std::string_view name, std::string_view why) {
                if (log_names_) log_unanswered(about(sandbox.id), name, why);
              },
          .answered =
              [this](const Sandbox& sandbox, std::string_view name, const Answer& answer) {
                if (log_names_) log_outbound(about(sandbox.id), name, answer);
              }};
}

void HostReports::changed(const std::string& id, const policy::Change& change, const Error* failed) {
  log_change(about(id), change, failed);
}

}  // namespace osb::egress
