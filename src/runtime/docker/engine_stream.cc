#include "runtime/docker/engine_stream.h"

#include <algorithm>

#include "api/json.h"
#include "runtime/docker/container.h"
#include "runtime/docker/engine_json.h"
#include "runtime/docker/sidecar_body.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxLine = 16 << 20;

std::string event_time(const json::value& event) {
  const std::int64_t nanos = engine::number(event, {"timeNano"});
  if (nanos <= 0) return "";
  const std::string fraction = std::to_string(nanos % 1'000'000'000);
  return std::to_string(nanos / 1'000'000'000) + "." + std::string(9 - fraction.size(), '0') + fraction;
}

// Docker's words and Podman's.
EngineEvent::Action action_of(std::string_view word) {
  using Action = EngineEvent::Action;
  if (word == "destroy" || word == "remove" || word == "prune") return Action::Gone;
  if (word == "die" || word == "died") return Action::Ended;
  if (word == "pause" || word == "unpause" || word == "start" || word == "restart") return Action::Changed;
  if (word == "create") return Action::Created;
  return Action::Other;
}

}  // namespace

void JsonLines::add(std::string_view piece) {
  rest_.erase(0, std::exchange(at_, 0));
  rest_ += piece;
}

Result<std::optional<json::value>> JsonLines::next() {
  for (;;) {
    const std::size_t end = rest_.find('\n', at_);
    if (end == std::string::npos) {
      if (rest_.size() - at_ > kMaxLine) return fail(Code::Internal, "the container engine sent a line without an end");
      return std::optional<json::value>();
    }
    const std::string_view line = std::string_view(rest_).substr(at_, end - at_);
    at_ = end + 1;
    if (line.find_first_not_of(" \r") == std::string_view::npos) continue;
    auto value = api::parse_json(line);
    if (!value) return with_context("stream of the container engine", value.error());
    return std::optional<json::value>(std::move(*value));
  }
}

EngineEvent read_event(const json::value& line) {
  EngineEvent out;
  out.type = engine::text(line, {"Type"});
  out.action = action_of(engine::text(line, {"Action"}));
  out.object = engine::text(line, {"Actor", "ID"});
  out.time = event_time(line);
  if (out.type != "container") return out;
  // The label alone may come from an image.
  std::string id = engine::text(line, {"Actor", "Attributes", label::kId});
  if (!id.empty() && engine::text(line, {"Actor", "Attributes", "name"}) == container_name(id)) {
    out.sandbox = std::move(id);
  }
  id = engine::text(line, {"Actor", "Attributes", label::kSidecarFor});
  if (!id.empty() && engine::text(line, {"Actor", "Attributes", "name"}) == container_name(sidecar_id(id))) {
    out.sidecar = std::move(id);
  }
  return out;
}

bool PullProgress::take(const json::value& line) {
  if (engine::text(line, {"status"}) != "Downloading") return false;
  Layer& layer = layers_[engine::text(line, {"id"})];
  layer.current = std::max<std::int64_t>(engine::number(line, {"progressDetail", "current"}), 0);
  layer.total = std::max<std::int64_t>(engine::number(line, {"progressDetail", "total"}), 0);
  double current = 0, total = 0;
  for (const auto& [id, each] : layers_) {
    current += static_cast<double>(each.current);
    total += static_cast<double>(each.total);
  }
  const int now = total > 0 ? static_cast<int>(std::min(99.0, 100 * current / total)) : 0;
  if (now <= percent_) return false;
  percent_ = now;
  return true;
}

std::string PullProgress::text() const { return "pulling " + std::to_string(std::max(percent_, 0)) + "%"; }

}  // namespace osb::runtime
