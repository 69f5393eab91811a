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
  if (!hello.deny_webhook.empty()) start_webhook(hello);
}

void HostReports::start_metrics(const api::egress::Hello& hello) {
  auto collector = otlp::Collector::from_endpoint(hello.otlp_endpoint);
  if (!collector) return log_error("metrics are not sent", {{"error", collector.error().message}});
  collector->interval = hello.otlp_interval;
  timed_ = true;
  sender_.emplace(std::move(*collector), connector(hello));
  tasks_.spawn("metrics", sender_->run([this] { return metrics_.document(); }));
}

// The roots come with the greeting: they are files, and this process opens none.
std::unique_ptr<http::Connector> HostReports::connector(const api::egress::Hello& hello) {
  return hello.trust.empty() ? make_own_plain_connector(executor_, upstreams_, {})
                             : make_own_connector(executor_, upstreams_, {}, hello.trust);
}

void HostReports::start_webhook(const api::egress::Hello& hello) {
  auto parsed = http::Url::parse(hello.deny_webhook);
  if (!parsed) return log_error("denied names are not sent", {{"error", parsed.error().message}});
  webhook_.emplace(executor_, connector(hello), std::move(*parsed), DenyWebhook::Options{.share = kShare});
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
