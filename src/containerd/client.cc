#include "containerd/client.h"

#include <utility>

#include "async/timer.h"
#include "base/time.h"
#include "containerd/protobuf.h"

namespace osb::containerd {
namespace {

// Of every call but a diff: containerd's other answers come from its database and from runc.
constexpr std::chrono::seconds kAnswer(60);

constexpr const char* kTasks = "tasks.v1.Tasks";
constexpr const char* kSnapshots = "snapshots.v1.Snapshots";
constexpr const char* kContent = "content.v1.Content";
constexpr const char* kImages = "images.v1.Images";
constexpr const char* kLeases = "leases.v1.Leases";

// The answer with what was asked about in front of an error.
template <typename Decode>
auto decoded(std::string what, const Result<std::string>& answer, Decode decode) -> decltype(decode(*answer)) {
  if (!answer) return with_context(std::move(what), answer.error());
  auto out = decode(*answer);
  if (!out) return with_context(std::move(what), out.error());
  return out;
}

std::string key_request(std::string_view snapshotter, std::string_view key) {
  return ProtoWriter().text(1, snapshotter).text(2, key).bytes();
}

std::string read_request(const image::Digest& digest) { return ProtoWriter().text(1, digest.to_string()).bytes(); }

}  // namespace

Client::Client(net::any_io_executor executor, std::string socket, std::string ns)
    : channel_(std::move(executor), socket), socket_(std::move(socket)), ns_(std::move(ns)) {}

http::Headers Client::metadata() const {
  http::Headers out{{"containerd-namespace", ns_}};
  if (!lease_.empty()) out.add("containerd-lease", lease_);
  return out;
}

net::awaitable<Result<std::string>> Client::call_unlimited(std::string service, std::string method,
                                                           std::string request) {
  const auto failed = [&](Error error) {
    if (error.code == Code::Unavailable) return with_context("containerd at " + socket_, std::move(error));
    return Failure(std::move(error));
  };
  auto call = co_await channel_.begin("/containerd.services." + service + "/" + method, std::move(request), metadata());
  if (!call) co_return failed(call.error());
  auto answer = co_await (*call)->read();
  if (!answer) co_return failed(answer.error());
  if (!*answer) co_return fail(Code::Internal, "containerd answered nothing to " + method);
  co_return std::move(**answer);
}

net::awaitable<Result<std::string>> Client::call(std::string service, std::string method, std::string request) {
  return with_timeout(call_unlimited(std::move(service), std::move(method), std::move(request)), kAnswer);
}

net::awaitable<Result<void>> Client::order(std::string service, std::string method, std::string request,
                                           std::string what) {
  const auto answer = co_await call(std::move(service), std::move(method), std::move(request));
  if (!answer) co_return with_context(std::move(what), answer.error());
  co_return Result<void>();
}

net::awaitable<Result<std::vector<Container>>> Client::containers(std::vector<std::string> filters) {
  ProtoWriter request;
  for (const std::string& filter : filters) request.item(1, filter);
  const auto answer = co_await call("containers.v1.Containers", "List", request.bytes());
  co_return decoded("containers", answer, decode_containers);
}

net::awaitable<Result<TaskStatus>> Client::task(std::string container) {
  const auto answer = co_await call(kTasks, "Get", ProtoWriter().text(1, container).bytes());
  co_return decoded("task of container " + container, answer, decode_task);
}

net::awaitable<Result<void>> Client::pause(std::string container) {
  return order(kTasks, "Pause", ProtoWriter().text(1, container).bytes(), "pause of container " + container);
}

net::awaitable<Result<void>> Client::resume(std::string container) {
  return order(kTasks, "Resume", ProtoWriter().text(1, container).bytes(), "resume of container " + container);
}

net::awaitable<Result<SnapshotInfo>> Client::snapshot(std::string snapshotter, std::string key) {
  const auto answer = co_await call(kSnapshots, "Stat", key_request(snapshotter, key));
  co_return decoded("snapshot " + key, answer, decode_snapshot);
}

net::awaitable<Result<std::vector<Mount>>> Client::mounts(std::string snapshotter, std::string key) {
  const auto answer = co_await call(kSnapshots, "Mounts", key_request(snapshotter, key));
  co_return decoded("mounts of snapshot " + key, answer, decode_mounts);
}

net::awaitable<Result<std::vector<Mount>>> Client::view(std::string snapshotter, std::string key, std::string parent) {
  const std::string request = ProtoWriter().text(1, snapshotter).text(2, key).text(3, parent).bytes();
  const auto answer = co_await call(kSnapshots, "View", request);
  co_return decoded("view of snapshot " + parent, answer, decode_mounts);
}

net::awaitable<Result<void>> Client::remove_snapshot(std::string snapshotter, std::string key) {
  return order(kSnapshots, "Remove", key_request(snapshotter, key), "removal of snapshot " + key);
}

net::awaitable<Result<image::Descriptor>> Client::diff(std::vector<Mount> left, std::vector<Mount> right,
                                                       std::string media_type) {
  ProtoWriter request;
  for (const Mount& mount : left) request.message(1, mount.encode());
  for (const Mount& mount : right) request.message(2, mount.encode());
  request.text(3, media_type);
  const auto answer = co_await call_unlimited("diff.v1.Diff", "Diff", request.bytes());
  co_return decoded("layer", answer, decode_diff);
}

net::awaitable<Result<BlobInfo>> Client::blob(image::Digest digest) {
  const auto answer = co_await call(kContent, "Info", read_request(digest));
  co_return decoded("blob " + digest.to_string(), answer, decode_blob);
}

// Reads a blob of the content store as it is sent.
class Client::BlobSource final : public http::BodySource {
 public:
  BlobSource(Client& client, const image::Descriptor& blob) : client_(client), blob_(blob) {}

  net::awaitable<Result<std::string_view>> read() override {
    const std::string name = "blob " + blob_.digest.to_string();
    if (!call_) {
      auto begun = co_await client_.channel_.begin("/containerd.services.content.v1.Content/Read",
                                                   read_request(blob_.digest), client_.metadata());
      if (!begun) co_return with_context(name, begun.error());
      call_ = std::move(*begun);
    }
    for (;;) {
      auto answer = co_await call_->read();
      if (!answer) co_return with_context(name, answer.error());
      if (!*answer) break;
      answer_ = std::move(**answer);
      const auto piece = decode_piece(answer_);
      if (!piece) co_return with_context(name, piece.error());
      done_ += piece->size();
      if (!piece->empty()) co_return *piece;
    }
    if (done_ != blob_.size) co_return fail(Code::Internal, name + " has another size than its manifest says");
    co_return std::string_view();
  }
  std::optional<std::uint64_t> length() const override { return blob_.size; }

 private:
  Client& client_;
  const image::Descriptor blob_;
  std::unique_ptr<GrpcCall> call_;
  std::string answer_;
  std::uint64_t done_ = 0;
};

std::shared_ptr<http::BodySource> Client::open_blob(const image::Descriptor& blob) {
  return std::make_shared<BlobSource>(*this, blob);
}

net::awaitable<Result<std::string>> Client::read_blob(image::Digest digest, std::size_t limit) {
  const auto info = co_await blob(digest);
  if (!info) co_return Failure(info.error());
  if (info->size > limit) co_return fail(Code::TooLarge, "blob " + digest.to_string() + ": too large");
  BlobSource source(*this, {.media_type = {}, .digest = digest, .size = info->size});
  auto text = co_await with_timeout(source.read_all(limit), kAnswer);
  if (!text) co_return Failure(text.error());
  if (image::Digest::of(*text) == digest) co_return std::move(*text);
  co_return fail(Code::InvalidRequest, "blob " + digest.to_string() + ": its content has another digest");
}

net::awaitable<Result<void>> Client::write_blob(std::string bytes, Labels labels) {
  constexpr std::uint64_t kCommit = 2;
  const std::string digest = image::Digest::of(bytes).to_string();
  // One message that opens the writer, writes and commits. The name of the writer is free; that of the blob is unique.
  const std::string request = ProtoWriter()
                                  .number(1, kCommit)
                                  .text(2, "opensandbox-" + digest)
                                  .number(3, bytes.size())
                                  .text(4, digest)
                                  .text(6, bytes)
                                  .entries(7, labels)
                                  .bytes();
  const auto answer = co_await call(kContent, "Write", request);
  if (!answer && answer.error().code != Code::Conflict) co_return with_context("blob " + digest, answer.error());
  co_return Result<void>();
}

net::awaitable<Result<ImageName>> Client::image(std::string name) {
  const auto answer = co_await call(kImages, "Get", ProtoWriter().text(1, name).bytes());
  co_return decoded("image " + name, answer, decode_image);
}

net::awaitable<Result<std::vector<ImageName>>> Client::images() {
  const auto answer = co_await call(kImages, "List", "");
  co_return decoded("images", answer, decode_images);
}

net::awaitable<Result<void>> Client::set_image(ImageName image) {
  const std::string what = "image " + image.name;
  const ProtoWriter encoded = image.encode();
  auto made = co_await order(kImages, "Create", ProtoWriter().message(1, encoded).bytes(), what);
  if (made || made.error().code != Code::Conflict) co_return made;
  const ProtoWriter mask = ProtoWriter().text(1, "target");
  co_return co_await order(kImages, "Update", ProtoWriter().message(1, encoded).message(2, mask).bytes(), what);
}

net::awaitable<Result<void>> Client::create_lease(std::string id, std::chrono::seconds lifetime) {
  const std::string until = format_timestamp(std::chrono::floor<std::chrono::seconds>(timestamp_now()) + lifetime);
  const std::string request = ProtoWriter().text(1, id).entries(3, {{"containerd.io/gc.expire", until}}).bytes();
  return order(kLeases, "Create", request, "lease " + id);
}

net::awaitable<Result<void>> Client::remove_lease(std::string id) {
  const std::string request = ProtoWriter().text(1, id).number(2, 1).bytes();  // returns when the rest is gone, too
  auto gone = co_await order(kLeases, "Delete", request, "lease " + id);
  if (!gone && gone.error().code == Code::NotFound) co_return Result<void>();
  co_return gone;
}

}  // namespace osb::containerd
