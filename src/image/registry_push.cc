#include "image/registry_push.h"

#include <cerrno>
#include <unistd.h>

#include "archive/tar_reader.h"
#include "image/image_pusher.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

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
  out.descriptor.media_type = layer ? kOciLayerType : kOciConfigType;
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

Manifest manifest_of(const std::vector<Blob>& blobs) {
  Manifest out{blobs[0].descriptor, {}};
  for (std::size_t i = 1; i < blobs.size(); ++i) out.layers.push_back(blobs[i].descriptor);
  return out;
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

}  // namespace

net::awaitable<Result<Digest>> push_archive(http::Client& client, BlockingPool& pool, Reference reference,
                                            PushOptions options, http::BodySource& archive) {
  ArchiveSpool spool(options.scratch, options.max_bytes);
  if (auto kept = co_await spool_archive(archive, pool, spool); !kept) co_return Failure(kept.error());
  const auto blobs = co_await pool.run([&] { return blobs_of(spool); });
  if (!blobs) co_return Failure(blobs.error());
  options.access.push = true;
  RegistryClient registry(client, pool, reference, options.access);
  ImagePusher pusher(registry, reference);
  for (const Blob& blob : *blobs) {
    const auto there = co_await pusher.has(blob.descriptor.digest);
    if (!there) co_return Failure(there.error());
    if (*there) continue;
    const ImagePusher::Open open = [&] {
      return std::make_shared<FileSource>(pool, blob.file.get(), blob.descriptor.size);
    };
    if (auto sent = co_await pusher.upload(blob.descriptor, open); !sent) co_return Failure(sent.error());
  }
  const std::string manifest = oci_manifest(manifest_of(*blobs));
  if (auto done = co_await pusher.finish(reference.tag, manifest); !done) co_return Failure(done.error());
  co_return Digest::of(manifest);
}

}  // namespace osb::image
