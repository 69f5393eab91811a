#include "runtime/kubernetes/kubernetes_logs.h"

#include "kubernetes/pod_streams.h"
#include "runtime/kubernetes/pod_spec.h"
#include "runtime/kubernetes/workload.h"

namespace osb::runtime {
namespace {

constexpr std::size_t kBytesPerLine = 1024;  // what the server counts for one
constexpr std::size_t kMostBytes = 256 << 20;

class PodLogStream final : public LogStream {
 public:
  PodLogStream(std::string id, std::unique_ptr<http::BodySource> body) : id_(std::move(id)), body_(std::move(body)) {}

  net::awaitable<Result<std::vector<LogPiece>>> next() override {
    std::vector<LogPiece> out;
    while (out.empty() && body_) {
      const auto bytes = co_await body_->read();
      if (!bytes)
        co_return fail(Code::Unavailable, "the log of sandbox " + id_ + " broke off: " + bytes.error().message);
      if (!bytes->empty()) {
        lines_.feed(*bytes, out);
        continue;
      }
      lines_.finish(out);
      body_.reset();
    }
    co_return out;
  }

 private:
  const std::string id_;
  std::unique_ptr<http::BodySource> body_;
  TimedLogReader lines_;
};

kubernetes::PodLogOptions with_times() {
  kubernetes::PodLogOptions out;
  out.container = kSandboxContainer;
  out.timestamps = true;
  return out;
}

}  // namespace

Result<kubernetes::Key> KubernetesLogs::pod_of(const std::string& id) const {
  if (const kubernetes::ObjectPtr pod = sandboxes_.pod(id)) return kubernetes::key_of(*pod);
  const kubernetes::ObjectPtr workload = sandboxes_.workload(id);
  const std::string given = workload ? pooled_pod(*workload) : "";
  if (given.empty()) return fail(Code::NotFound, "sandbox " + id + " has no pod");
  return kubernetes::Key{sandboxes_.key_of(id).ns, given};
}

net::awaitable<Result<std::string>> KubernetesLogs::tail(std::string id, std::size_t bytes) {
  const auto pod = pod_of(id);
  if (!pod) co_return Failure(pod.error());
  auto options = with_times();
  options.tail_lines = static_cast<std::int64_t>(bytes / kBytesPerLine + 1);
  auto log = co_await kubernetes::pod_log(client_, *pod, std::move(options));
  if (!log) co_return Failure(log.error());
  auto text = co_await (*log)->read_all(kMostBytes);
  if (!text) co_return Failure(text.error());
  if (text->size() > bytes) text->erase(0, text->size() - bytes);
  co_return std::move(*text);
}

net::awaitable<Result<std::unique_ptr<LogStream>>> KubernetesLogs::open(std::string id, LogsFrom from) {
  const auto pod = pod_of(id);
  if (!pod) co_return Failure(pod.error());
  auto options = with_times();
  options.follow = from.follow;
  if (from.tail) options.tail_lines = static_cast<std::int64_t>(*from.tail);
  if (from.since) {
    // Whole seconds from now, rounded up so that nothing is missing.
    const auto ago = std::chrono::ceil<std::chrono::seconds>(timestamp_now() - *from.since).count() + 1;
    options.since_seconds = std::max<std::int64_t>(ago, 1);
  }
  auto log = co_await kubernetes::pod_log(client_, *pod, std::move(options));
  if (!log) co_return Failure(log.error());
  co_return std::make_unique<PodLogStream>(std::move(id), std::move(*log));
}

}  // namespace osb::runtime
