#include "kubernetes/watch.h"

#include <utility>

#include "api/json.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes {
namespace {

constexpr std::size_t kMaxEvent = 16 << 20;  // an object is at most 1.5 MiB in etcd; its JSON may be larger
constexpr std::size_t kMaxDepth = 128;

std::optional<WatchEvent::Type> type_of(std::string_view word) {
  using Type = WatchEvent::Type;
  if (word == "ADDED") return Type::Added;
  if (word == "MODIFIED") return Type::Modified;
  if (word == "DELETED") return Type::Deleted;
  if (word == "BOOKMARK") return Type::Bookmark;
  return std::nullopt;
}

}  // namespace

void WatchDecoder::add(std::string_view bytes) {
  rest_.erase(0, at_);
  searched_ -= std::exchange(at_, 0);
  rest_ += bytes;
}

Result<std::optional<WatchEvent>> WatchDecoder::next() {
  for (;;) {
    const std::size_t end = rest_.find('\n', searched_);
    if (end == std::string::npos) {
      searched_ = rest_.size();
      if (rest_.size() - at_ > kMaxEvent) return fail(Code::Internal, "watch: an event without an end");
      return std::optional<WatchEvent>();
    }
    const std::string_view line = std::string_view(rest_).substr(at_, end - at_);
    at_ = searched_ = end + 1;
    if (line.find_first_not_of(" \r\t") == std::string_view::npos) continue;
    auto parsed = api::parse_json(line, {.max_depth = kMaxDepth});
    if (!parsed) return fail(Code::Internal, "watch: not an event: " + parsed.error().message);
    json::object* event = parsed->if_object();
    json::value* object = event == nullptr ? nullptr : event->if_contains("object");
    if (object == nullptr || !object->is_object()) return fail(Code::Internal, "watch: an event without an object");
    const std::string_view word = text(*event, {"type"});
    if (word == "ERROR") return Failure(api_error(object->get_object()));
    if (const auto type = type_of(word)) {
      return WatchEvent{*type, std::make_shared<const json::object>(std::move(object->get_object()))};
    }
  }
}

net::awaitable<Result<std::optional<WatchEvent>>> Watch::next() {
  for (;;) {
    auto event = decoder_.next();
    if (!event || *event) co_return event;
    const auto piece = co_await response_.body->read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return std::optional<WatchEvent>();
    decoder_.add(*piece);
  }
}

}  // namespace osb::kubernetes
