#include "image/registry_push.h"

#include <cerrno>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "api/json.h"
#include "archive/tar_reader.h"
#include "http/url.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

namespace json = api::json;

constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";
constexpr const char* kConfigType = "application/vnd.oci.image.config.v1+json";
constexpr const char* kLayerType = "application/vnd.oci.image.layer.v1.tar";
constexpr std::size_t kPiece = 1 << 20;

Result<std::size_t> read_some(int file, std::uint64_t offset, std::string& into) {
  for (;;) {
    const ssize_t got = ::pread(file, into.data(), into.size(), static_cast<off_t>(offset));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return sys::from_errno("read a layer", errno);
  }
}

// A file as the body of a request. The descriptor and the pool outlive it.
class FileSource final : public http::BodySource {
 public:
  FileSource(BlockingPool& pool, int file, std::uint64_t size) : pool_(pool), file_(file), size_(size) {}

  net::awaitable<Result<std::string_view>> read() override {
    if (done_ == size_) co_return std::string_view();
    piece_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size_ - done_)));
    const auto got = co_await pool_.run([&] { return read_some(file_, done_, piece_); });
    if (!got) co_return Failure(got.error());
    if (*got == 0) co_return fail(Code::Internal, "a layer became shorter while it was sent");
    done_ += *got;
    co_return std::string_view(piece_).substr(0, *got);
  }
  std::optional<std::uint64_t> length() const override { return size_; }

 private:
  BlockingPool& pool_;
  const int file_;
  const std::uint64_t size_;
  std::uint64_t done_ = 0;
  std::string piece_;
};

// A blob of the image: a file of the spool.
struct Blob {
  Descriptor descriptor;
  UniqueFd file;
};

const char* layer_suffix(std::string_view begin) {
  if (begin.starts_with("\x1f\x8b")) return "+gzip";
  if (begin.starts_with("\x28\xb5\x2f\xfd")) return "+zstd";
  return "";
}

Result<Blob> blob_of(const ArchiveSpool& spool, const std::string& entry, bool layer) {
  Blob out;
  auto file = spool.open(entry, &out.descriptor.size);
  if (!file) return Failure(file.error());
  out.file = std::move(*file);
  out.descriptor.media_type = layer ? kLayerType : kConfigType;
  tls::Sha256 sum;
  std::string piece(kPiece, '\0');
  for (std::uint64_t at = 0; at < out.descriptor.size;) {
    const auto got = read_some(out.file.get(), at, piece);
    if (!got) return Failure(got.error());
    if (*got == 0) return fail(Code::Internal, "archive: its scratch file is too short");
    if (at == 0 && layer) out.descriptor.media_type += layer_suffix(std::string_view(piece).substr(0, *got));
    sum.update(std::string_view(piece).substr(0, *got));
    at += *got;
  }
  out.descriptor.digest = Digest(sum.finish());
  return out;
}

json::value descriptor_json(const Descriptor& descriptor) {
  return {{"mediaType", descriptor.media_type}, {"digest", descriptor.digest.to_string()}, {"size", descriptor.size}};
}

// The image of the archive: the configuration first, then the layers, lowest first.
Result<std::vector<Blob>> blobs_of(const ArchiveSpool& spool) {
  const auto text = spool.text("manifest.json", kMaxManifestBytes);
  if (!text) return Failure(text.error());
  const auto images = decode_docker_archive(*text);
  if (!images) return Failure(images.error());
  if (images->size() != 1) return fail(Code::InvalidRequest, "archive: it has to hold one image");
  const DockerArchiveImage& image = images->front();
  std::vector<Blob> out;
  auto config = blob_of(spool, image.config, false);
  if (!config) return Failure(config.error());
  out.push_back(std::move(*config));
  for (const std::string& layer : image.layers) {
    auto blob = blob_of(spool, layer, true);
    if (!blob) return Failure(blob.error());
    out.push_back(std::move(*blob));
  }
  return out;
}

std::string manifest_of(const std::vector<Blob>& blobs) {
  json::array layers;
  for (std::size_t i = 1; i < blobs.size(); ++i) layers.push_back(descriptor_json(blobs[i].descriptor));
  return json::serialize(json::value{{"schemaVersion", 2},
                                     {"mediaType", kManifestType},
                                     {"config", descriptor_json(blobs[0].descriptor)},
                                     {"layers", std::move(layers)}});
}

net::awaitable<Result<void>> spool_archive(http::BodySource& archive, BlockingPool& pool, ArchiveSpool& spool) {
  archive::TarReader reader(spool, "archive");
  for (;;) {
    const auto piece = co_await archive.read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) break;
    if (auto fed = co_await pool.run([&] { return reader.feed(*piece); }); !fed) co_return fed;
  }
  co_return reader.finish();
}

// One image on its way to the registry.
class Pusher {
 public:
  Pusher(RegistryClient& registry, BlockingPool& pool, const Reference& reference)
      : registry_(registry), pool_(pool), base_("/v2/" + reference.repository), name_(reference.familiar()) {}

  net::awaitable<Result<void>> send(const Blob& blob) {
    const std::string digest = blob.descriptor.digest.to_string();
    const auto look = [&] { return request("HEAD", base_ + "/blobs/" + digest); };
    const auto there = co_await answer(look);
    if (!there) co_return Failure(there.error());
    if (there->status == 200) co_return Result<void>();
    if (there->status != 404) co_return Failure(registry_refusal(there->status, name_));
    const auto begin = [&] { return request("POST", base_ + "/blobs/uploads/"); };
    const auto begun = co_await answer(begin);
    if (!begun) co_return Failure(begun.error());
    if (begun->status != 202) co_return Failure(registry_refusal(begun->status, name_));
    auto target = registry_.own_target(begun->headers.get("Location"));
    if (!target) co_return Failure(target.error());
    *target += (target->contains('?') ? "&digest=" : "?digest=") + http::percent_encode(digest);
    const auto put = [&] {
      http::ClientRequest out = request("PUT", *target);
      out.headers.set("Content-Type", "application/octet-stream");
      out.stream = std::make_shared<FileSource>(pool_, blob.file.get(), blob.descriptor.size);
      out.timeouts.head = std::chrono::minutes(10);  // the registry sums it and writes it to its disk
      return out;
    };
    const auto stored = co_await answer(put);
    if (!stored) co_return Failure(stored.error());
    if (stored->status != 201) co_return Failure(registry_refusal(stored->status, name_ + ": blob " + digest));
    co_return Result<void>();
  }

  net::awaitable<Result<void>> finish(std::string tag, std::string manifest) {
    const auto put = [&] {
      http::ClientRequest out = request("PUT", base_ + "/manifests/" + tag);
      out.headers.set("Content-Type", kManifestType);
      out.body = manifest;
      return out;
    };
    const auto stored = co_await answer(put);
    if (!stored) co_return Failure(stored.error());
    if (stored->status != 201) co_return Failure(registry_refusal(stored->status, name_ + ": manifest"));
    co_return Result<void>();
  }

 private:
  struct Answer {
    int status;
    http::Headers headers;
  };

  static http::ClientRequest request(std::string method, std::string target) {
    http::ClientRequest out;
    out.method = std::move(method);
    out.target = std::move(target);
    return out;
  }

  // `make` outlives the call.
  net::awaitable<Result<Answer>> answer(const std::function<http::ClientRequest()>& make) {
    auto response = co_await registry_.call(make);
    if (!response) co_return Failure(response.error());
    (void)co_await response->body->read_all(1 << 16);  // gives the connection back
    co_return Answer{response->status, std::move(response->headers)};
  }

  RegistryClient& registry_;
  BlockingPool& pool_;
  const std::string base_, name_;
};

}  // namespace

net::awaitable<Result<Digest>> push_archive(http::Client& client, BlockingPool& pool, Reference reference,
                                            PushOptions options, http::BodySource& archive) {
  ArchiveSpool spool(options.scratch, options.max_bytes);
  if (auto kept = co_await spool_archive(archive, pool, spool); !kept) co_return Failure(kept.error());
  const auto blobs = co_await pool.run([&] { return blobs_of(spool); });
  if (!blobs) co_return Failure(blobs.error());
  options.access.push = true;
  RegistryClient registry(client, pool, reference, options.access);
  Pusher pusher(registry, pool, reference);
  for (const Blob& blob : *blobs) {
    if (auto sent = co_await pusher.send(blob); !sent) co_return Failure(sent.error());
  }
  const std::string manifest = manifest_of(*blobs);
  if (auto done = co_await pusher.finish(reference.tag, manifest); !done) co_return Failure(done.error());
  co_return Digest::of(manifest);
}

}  // namespace osb::image
