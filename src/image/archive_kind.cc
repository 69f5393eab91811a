#include "image/archive_kind.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "image/digest.h"
#include "image/tar_stream.h"

namespace osb::image {
namespace {

// Of the tar; only the first entries are read here.
constexpr std::uint64_t kLimit = std::uint64_t{1} << 40;
constexpr std::size_t kMostRead = 32 << 20;
constexpr std::size_t kDigestDigits = 64;

// Bytes that were read, and where the others come from.
struct Recorded {
  ByteSource source;
  std::string seen;
  std::size_t given = 0;
};

bool belongs_to_images(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"blobs", "index.json", "manifest.json", "oci-layout",
                                                      "repositories"};
  const std::string_view first = name.substr(0, name.find('/'));
  if (std::ranges::find(kNames, first) != kNames.end()) return true;
  // "<digest>.json", "<digest>/", "<digest>.tar", "sha256:<digest>".
  constexpr std::string_view kAlgorithm = "sha256:";
  const std::string_view digest = first.substr(first.starts_with(kAlgorithm) ? kAlgorithm.size() : 0, kDigestDigits);
  return Digest::from_hex(digest).has_value();
}

bool belongs_to_roots(std::string_view name) {
  constexpr std::array<std::string_view, 22> kNames = {
      ".dockerenv", "bin", "boot", "dev",  "etc", "home", "lib", "lib32", "lib64", "libx32", "media",
      "mnt",        "opt", "proc", "root", "run", "sbin", "srv", "sys",   "tmp",   "usr",    "var"};
  return std::ranges::find(kNames, name.substr(0, name.find('/'))) != kNames.end();
}

// Stops the reader at the first entry whose name says something.
struct KindSink : archive::TarSink {
  Result<void> begin(const archive::TarEntry& entry) override {
    std::string_view name = entry.path;
    while (name.starts_with("./") || name.starts_with('/')) name.remove_prefix(name.starts_with('/') ? 1 : 2);
    if (belongs_to_roots(name)) kind = ArchiveKind::Root;
    if (belongs_to_images(name)) kind = ArchiveKind::Images;
    return kind ? fail(Code::Cancelled, "archive: its kind is known") : Result<void>();
  }
  Result<void> data(std::uint64_t, std::string_view) override { return {}; }
  Result<void> end() override { return {}; }
  std::optional<ArchiveKind> kind;
};

}  // namespace

ArchiveKind archive_kind(ByteSource& source) {
  auto recorded = std::make_shared<Recorded>();
  recorded->source = std::move(source);
  KindSink sink;
  const auto record = [recorded](std::span<char> buffer) -> Result<std::size_t> {
    if (recorded->seen.size() >= kMostRead) return fail(Code::TooLarge, "archive: of unknown kind");
    auto got = recorded->source(buffer);
    if (got) recorded->seen.append(buffer.data(), *got);
    return got;
  };
  (void)read_tar("archive", record, kLimit, sink);
  source = [recorded](std::span<char> buffer) -> Result<std::size_t> {
    const std::size_t left = recorded->seen.size() - recorded->given;
    if (left == 0) return recorded->source(buffer);
    const std::size_t count = std::min(left, buffer.size());
    std::memcpy(buffer.data(), recorded->seen.data() + recorded->given, count);
    recorded->given += count;
    if (recorded->given == recorded->seen.size()) {
      recorded->seen = std::string();
      recorded->given = 0;
    }
    return count;
  };
  return sink.kind.value_or(ArchiveKind::Images);
}

}  // namespace osb::image
