#include "server/service/readiness.h"

namespace osb::server {
namespace {

constexpr std::string_view kNotReady = "GENERAL::NOT_READY";
// Probing writes to the disk, and the route needs no key.
constexpr std::chrono::milliseconds kProbeInterval(500);

}  // namespace

net::awaitable<Result<void>> Readiness::check() {
  if (context_.closing) co_return api::refuse(Code::Unavailable, kNotReady, "the server is ending");
  if (!presence_.is_here()) {
    // The route needs no key, so addresses are only in the log.
    co_return api::refuse(Code::Unavailable, kNotReady, context_.backend.capabilities().daemon + " does not answer");
  }
  const auto moment = context_.time.steady();
  if (!probed_at_ || moment - *probed_at_ >= kProbeInterval) {
    // Requests that come meanwhile get the answer of before.
    probed_at_ = moment;
    const auto written = co_await context_.store.probe();
    probe_error_ = written ? "" : written.error().message;
  }
  if (!probe_error_.empty()) {
    co_return api::refuse(Code::Unavailable, kNotReady, "the records cannot be written: " + probe_error_);
  }
  co_return Result<void>();
}

}  // namespace osb::server
