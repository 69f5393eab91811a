#include <opensandbox/async.h>

#include "base/line_splitter.h"
#include "client/decode.h"
#include "client/errors.h"
#include "client/event_line.h"
#include "client/upload_body.h"
#include "client/wire.h"

namespace opensandbox::async {
namespace {

Task<std::vector<Image>> list_images(ClientState state) {
  auto reply = co_await state->call(state->server, {.target = "/images"});
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return decode_images(*reply);
}

// One decoded line of a pull.
struct PullLine {
  std::optional<PullProgress> progress;
  std::optional<Image> image;
  std::optional<Error> error;
};

PullLine decode_line(std::string_view text, std::string_view request_id) {
  PullLine out;
  const auto value = parse_answer(text, request_id);
  if (!value || !value->is_object()) return out;
  const auto& object = value->get_object();
  const std::string type = text_of(object, "type");
  if (type == "progress") {
    PullProgress progress;
    progress.phase = text_of(object, "phase");
    progress.layer = text_of(object, "layer");
    progress.current_bytes = static_cast<std::uint64_t>(int_of(object, "currentBytes").value_or(0));
    if (const auto total = int_of(object, "totalBytes")) progress.total_bytes = static_cast<std::uint64_t>(*total);
    out.progress = std::move(progress);
  } else if (type == "complete") {
    const auto* image = object_of(object, "image");
    out.image = image != nullptr ? image_from(*image) : Image{};
  } else if (type == "error") {
    const auto* error = object_of(object, "error");
    const auto& from = error != nullptr ? *error : object;
    out.error = Error{.kind = ErrorKind::Api,
                      .code = text_of(from, "code"),
                      .message = text_of(from, "message"),
                      .request_id = std::string(request_id)};
    if (out.error->code.empty()) out.error->code = "UNEXPECTED_RESPONSE";
  }
  return out;
}

Task<Image> pull(ClientState state, Call call, PullSink sink) {
  auto stream = co_await state->open(state->server, std::move(call));
  if (!stream) co_return Failure(std::move(stream.error()));
  osb::LineSplitter splitter;
  for (;;) {
    auto piece = co_await stream->body->read();
    if (!piece) co_return from_transport(piece.error());
    std::vector<PullLine> lines;
    const auto take = [&](std::string_view line) {
      if (const auto text = event_json(line); !text.empty()) lines.push_back(decode_line(text, stream->request_id));
    };
    const bool end = piece->empty();
    if (end) {
      splitter.finish(take);
    } else {
      splitter.feed(*piece, take);
    }
    for (auto& line : lines) {
      if (line.error) co_return Failure(std::move(*line.error));
      if (line.image) co_return std::move(*line.image);
      if (!line.progress || !sink) continue;
      auto more = co_await sink(*line.progress);
      if (!more) co_return Failure(std::move(more.error()));
      if (!*more) co_return cancelled("the progress handler asked to stop");
    }
    if (end) co_return network_error("the pull ended without saying how");
  }
}

Task<std::vector<Image>> load(ClientState state, Call call, std::shared_ptr<UploadBody> body) {
  auto reply = co_await send_upload(state, state->server, std::move(call), std::move(body));
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return decode_images(*reply);
}

Task<void> remove(ClientState state, std::string target) {
  auto reply = co_await state->call(state->server, {.method = "DELETE", .target = std::move(target)});
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return Result<void>();
}

}  // namespace

Task<std::vector<Image>> SandboxManager::images() const { return list_images(client_.state()); }

Task<Image> SandboxManager::pull_image(PullOptions options, PullSink sink) const {
  json::object body{{"uri", options.image}};
  if (options.auth) {
    body["auth"] = json::object{{"username", options.auth->username}, {"password", options.auth->password}};
  }
  if (options.platform) {
    body["platform"] = json::object{{"os", options.platform->os}, {"arch", options.platform->arch}};
  }
  Call call = json_call("POST", "/images/pull", json::serialize(body));
  call.headers.add("Accept", "text/event-stream");
  call.endless = true;  // unpacking a large layer is silent
  return pull(client_.state(), std::move(call), std::move(sink));
}

Task<std::vector<Image>> SandboxManager::load_image(ByteSource archive, std::string name,
                                                    std::optional<std::uint64_t> length) const {
  std::string target = "/images/load";
  if (!name.empty()) add_query(target, "name", name);
  Call call{.method = "POST", .target = std::move(target), .content_type = "application/x-tar"};
  return load(client_.state(), std::move(call), std::make_shared<UploadBody>("", std::move(archive), "", length));
}

Task<void> SandboxManager::remove_image(std::string uri, bool force) const {
  std::string target = "/images";
  add_query(target, "uri", uri);
  if (force) add_query(target, "force", "true");
  return remove(client_.state(), std::move(target));
}

}  // namespace opensandbox::async
