#include "execd/daemon/activity.h"

#include <algorithm>
#include <memory>

#include "http/hold_until_sent.h"

namespace osb::execd {

// One request.
class Activity::Served {
 public:
  explicit Served(Activity& activity) : activity_(&activity) { ++activity.served_; }
  Served(Served&& other) noexcept : activity_(std::exchange(other.activity_, nullptr)) {}
  Served& operator=(Served&&) = delete;
  ~Served() {
    if (activity_ == nullptr) return;
    --activity_->served_;
    activity_->last_ = activity_->clock_.steady_now();
  }

 private:
  Activity* activity_;
};

http::Handler Activity::counting(http::Handler inner) {
  return [this, inner = std::move(inner)](http::Request& request) -> net::awaitable<http::Response> {
    const std::string_view path = request.path();
    if (path == "/ping" || path == "/activity") co_return co_await inner(request);
    Served served(*this);
    http::Response response = co_await inner(request);
    http::hold_until_sent(response, std::move(served));
    co_return response;
  };
}

Activity::Report Activity::report() {
  const auto now = clock_.steady_now();
  const bool active = served_ > 0 || std::ranges::any_of(sources_, [](const auto& busy) { return busy(); });
  if (active) last_ = now;
  return {active, std::chrono::duration_cast<std::chrono::milliseconds>(now - last_)};
}

std::string Activity::to_json(const Report& report) {
  return std::string(R"({"active":)") + (report.active ? "true" : "false") + R"(,"idle_ms":)" +
         std::to_string(report.idle.count()) + "}";
}

}  // namespace osb::execd
