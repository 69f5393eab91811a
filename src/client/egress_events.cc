#include "client/egress_events.h"

#include "base/line_splitter.h"
#include "client/errors.h"
#include "client/event_line.h"

namespace opensandbox::async {
namespace {

constexpr std::size_t kLongestLine = 1 << 20;

}  // namespace

Task<std::vector<json::object>> list_egress(SandboxPtr sandbox, std::string target, std::string key) {
  auto peer = co_await sandbox->egress();
  if (!peer) co_return Failure(std::move(peer.error()));
  auto reply = co_await sandbox->wire()->call(std::move(*peer), {.target = std::move(target)});
  if (!reply) co_return Failure(std::move(reply.error()));
  auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(std::move(value.error()));
  const auto* object = value->if_object();
  const auto* all = object != nullptr ? array_of(*object, key) : nullptr;
  if (all == nullptr) co_return invalid_response("the answer has no " + key, reply->request_id);
  std::vector<json::object> out;
  for (const auto& item : *all) {
    if (const auto* entry = item.if_object()) out.push_back(*entry);
  }
  co_return out;
}

Task<void> follow_egress(SandboxPtr sandbox, std::string target, std::function<Task<bool>(json::object)> take) {
  auto peer = co_await sandbox->egress();
  if (!peer) co_return Failure(std::move(peer.error()));
  Call call{.target = std::move(target)};
  call.headers.add("Accept", "text/event-stream");
  call.endless = true;
  auto stream = co_await sandbox->wire()->open(std::move(*peer), std::move(call));
  if (!stream) co_return Failure(std::move(stream.error()));
  osb::LineSplitter splitter;
  for (;;) {
    auto piece = co_await stream->body->read();
    if (!piece) co_return from_transport(piece.error());
    if (piece->empty()) co_return Result<void>();
    std::vector<json::object> heard;
    splitter.feed(*piece, [&](std::string_view line) {
      const std::string_view text = event_json(line);
      if (text.empty()) return;
      auto value = parse_answer(text, stream->request_id);
      if (value && value->is_object()) heard.push_back(std::move(value->get_object()));
    });
    if (splitter.pending() > kLongestLine) {
      co_return invalid_response("an event is longer than any event may be", stream->request_id);
    }
    for (json::object& each : heard) {
      auto more = co_await take(std::move(each));
      if (!more) co_return Failure(std::move(more.error()));
      if (!*more) co_return Result<void>();
    }
  }
}

}  // namespace opensandbox::async
