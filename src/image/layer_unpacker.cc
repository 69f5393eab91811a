#include "image/layer_unpacker.h"

#include <cerrno>
#include <fcntl.h>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "archive/unpacker.h"
#include "base/concat.h"
#include "base/json_escape.h"
#include "image/tar_stream.h"
#include "sys/syscall.h"

namespace osb::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kAufsPrefix = ".wh..wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::size_t kMaxName = 255;

archive::UnpackRules rules_for(const UnpackOptions& options) {
  using Special = archive::UnpackRules::Special;
  archive::UnpackRules rules;
  rules.what = "layer";
  rules.names = {.absolute_is_relative = true, .longest_leaf = kMaxName + kWhiteout.size()};
  rules.target = archive::UnpackRules::Target::Private;
  rules.owners = archive::UnpackRules::Owners::Require;
  rules.max_id = options.max_id;
  rules.mode_mask = 07777;
  rules.devices = options.devices == UnpackOptions::Devices::Skip     ? Special::Skip
                  : options.devices == UnpackOptions::Devices::Refuse ? Special::Refuse
                                                                      : Special::Create;
  rules.attributes = true;
  rules.max_entries = options.max_entries;
  rules.max_bytes = options.max_bytes;
  return rules;
}

// An unpacker that gives whiteouts and opaque directories their meaning for overlayfs.
class LayerSink : public archive::TarSink {
 public:
  LayerSink(UniqueFd root, const UnpackOptions& options)
      : unpacker_(std::move(root), rules_for(options)), options_(options) {}

  Result<void> begin(const archive::TarEntry& entry) override;
  Result<void> data(std::uint64_t offset, std::string_view bytes) override { return unpacker_.data(offset, bytes); }
  Result<void> end() override { return unpacker_.end(); }

  archive::Unpacker& unpacker() { return unpacker_; }
  std::uint64_t entries() const { return unpacker_.entries() + whiteouts_made_; }
  std::uint64_t disk_bytes() const { return unpacker_.disk_bytes() + whiteouts_made_ * 4096; }

 private:
  Result<void> whiteout(const archive::EntryName& name);
  Result<void> mark_opaque(const archive::EntryName& name);
  Result<void> mark_opaque(int directory, const std::string& path) const;

  archive::Unpacker unpacker_;
  const UnpackOptions& options_;
  std::set<std::string> whiteouts_;  // paths that are whiteouts now
  std::uint64_t whiteouts_made_ = 0;
};

Result<void> LayerSink::begin(const archive::TarEntry& entry) {
  auto name = unpacker_.name_of(entry);
  if (!name) return Failure(name.error());
  if (name->leaf.starts_with(kWhiteout)) {
    ++whiteouts_made_;
    if (entries() > options_.max_entries) return fail(Code::TooLarge, "layer: too many entries");
    return whiteout(*name);
  }
  if (name->leaf.size() > kMaxName) return unpacker_.refused(entry.path, "a name is longer than 255 bytes");
  if (entry.type == archive::TarEntry::Type::CharDevice && entry.major == 0 && entry.minor == 0 &&
      options_.devices == UnpackOptions::Devices::Create) {
    return unpacker_.refused(entry.path, "a device that would be a whiteout");
  }
  if (auto begun = unpacker_.begin(entry); !begun) return begun;
  if (whiteouts_.empty() || whiteouts_.erase(name->path()) == 0) return {};
  return entry.type == archive::TarEntry::Type::Directory ? mark_opaque(*name) : Result<void>();
}

// A whiteout speaks about the layers below only: an entry of this layer with that name stays, but no longer shows
// anything from below.
Result<void> LayerSink::whiteout(const archive::EntryName& name) {
  const auto parent = unpacker_.enter_parent_of(name);
  if (!parent) return Failure(parent.error());
  if (name.leaf == kOpaque) return mark_opaque(*parent, name.parent);
  if (name.leaf.starts_with(kAufsPrefix)) return {};  // aufs' own book-keeping
  const archive::EntryName target{name.parent, name.leaf.substr(kWhiteout.size())};
  if (target.leaf.empty() || target.leaf == "." || target.leaf == "..") {
    return unpacker_.refused(name.path(), "hides no name");
  }
  if (::mknodat(*parent, target.leaf.c_str(), S_IFCHR, 0) == 0) {
    whiteouts_.insert(target.path());
    return {};
  }
  if (errno != EEXIST) return sys::from_errno(concat("whiteout ", in_quotes(target.path(), 200)), errno);
  return mark_opaque(target);
}

// Of the directory with that name; anything else hides the layers below by itself.
Result<void> LayerSink::mark_opaque(const archive::EntryName& name) {
  const auto parent = unpacker_.enter_parent_of(name);
  if (!parent) return Failure(parent.error());
  const auto directory = sys::open_at(*parent, name.leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  return directory ? mark_opaque(directory->get(), name.path()) : Result<void>();
}

Result<void> LayerSink::mark_opaque(int directory, const std::string& path) const {
  const bool trusted = options_.opaque == UnpackOptions::Opaque::Trusted;
  const char* attribute = trusted ? "trusted.overlay.opaque" : "user.overlay.opaque";
  if (::fsetxattr(directory, attribute, "y", 1, 0) == 0) return {};
  return sys::from_errno(concat("set ", std::string_view(attribute), " on ", in_quotes(path, 200)), errno);
}

Result<void> compare(const char* what, const std::optional<Digest>& wanted, const Digest& is) {
  if (!wanted || *wanted == is) return {};
  return fail(Code::InvalidRequest,
              std::string("layer: its ") + what + " is " + is.to_string() + ", expected " + wanted->to_string());
}

}  // namespace

Result<UnpackedLayer> unpack_layer(ByteSource source, int root, const UnpackOptions& options) {
  auto own = sys::open_at(root, ".", O_RDONLY | O_DIRECTORY);
  if (!own) return Failure(own.error());
  LayerSink sink(std::move(*own), options);
  const auto sums = read_tar("layer", std::move(source), options.max_bytes, sink);
  if (!sums) return Failure(sums.error());
  if (auto done = sink.unpacker().finish(); !done) return Failure(done.error());
  if (auto same = compare("digest", options.digest, sums->compressed); !same) return Failure(same.error());
  if (auto same = compare("diff id", options.diff_id, sums->uncompressed); !same) return Failure(same.error());
  return UnpackedLayer{sums->compressed, sums->uncompressed, sink.entries(), sink.disk_bytes()};
}

}  // namespace osb::image
