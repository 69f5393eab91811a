#include <fcntl.h>
#include <opensandbox/files.h>
#include <optional>
#include <string>

#include "archive/tree_archive.h"
#include "archive/unpacker.h"
#include "client/errors.h"
#include "client/local_file.h"
#include "client/sync.h"
#include "sys/staged_file.h"
#include "sys/syscall.h"

namespace opensandbox {
namespace {

namespace archive = osb::archive;

constexpr std::size_t kPiece = 1024 * 1024;

// Unpacks the archive of a sandbox, which is not trusted. The files belong to the caller and have no setuid or setgid
// bits; devices and fifos are left out.
class Unpacking {
 public:
  // Makes the directory if it is missing.
  static osb::Result<std::unique_ptr<Unpacking>> open(const std::string& directory) {
    if (auto made = osb::sys::make_directories(directory, 0777); !made) return osb::Failure(made.error());
    auto root = osb::sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!root) return osb::Failure(root.error());
    archive::UnpackRules rules;
    rules.parent_mode = 0777;
    rules.devices = rules.fifos = archive::UnpackRules::Special::Skip;
    return std::unique_ptr<Unpacking>(new Unpacking(std::move(*root), std::move(rules)));
  }

  osb::Result<void> feed(std::string_view bytes) { return reader_.feed(bytes); }
  osb::Result<void> finish() {
    auto whole = reader_.finish();
    return whole ? unpacker_.finish() : whole;
  }

 private:
  Unpacking(osb::UniqueFd root, archive::UnpackRules rules)
      : unpacker_(std::move(root), std::move(rules)), reader_(unpacker_) {}

  archive::Unpacker unpacker_;
  archive::TarReader reader_;
};

// An archive that breaks the rules is the sandbox's fault, any other error is one of this machine.
Failure from_archive(const osb::Error& error) {
  const bool theirs = error.code == osb::Code::InvalidRequest && error.sys_errno == 0;
  return theirs ? invalid_response(error.message) : from_local(error);
}

}  // namespace

Result<std::uint64_t> Files::upload_directory(const std::string& local, const std::string& remote,
                                              const TransferProgress& progress) const {
  auto tree = archive::TreeArchive::open(local, {});
  if (!tree) return from_local(tree.error());
  std::uint64_t done = 0;
  std::string piece;
  bool more = true;
  return write_archive(remote, [&]() -> Result<std::string_view> {
    if (progress && done > 0) progress(done, std::nullopt);
    piece.clear();
    if (more) {
      const auto filled = tree->fill(piece, kPiece);
      if (!filled) return from_local(filled.error());
      more = *filled;
    }
    done += piece.size();
    return std::string_view(piece);
  });
}

Result<std::uint64_t> Files::download_directory(const std::string& remote, const std::string& local,
                                                const TransferProgress& progress) const {
  std::unique_ptr<Unpacking> unpacking;  // made with the first piece: an error of the sandbox leaves nothing behind
  std::uint64_t done = 0;
  auto read = read_archive(remote, [&](std::string_view piece) -> Result<void> {
    if (!unpacking) {
      auto opened = Unpacking::open(local);
      if (!opened) return from_archive(opened.error());
      unpacking = std::move(*opened);
    }
    if (auto fed = unpacking->feed(piece); !fed) return from_archive(fed.error());
    done += piece.size();
    if (progress) progress(done, std::nullopt);
    return {};
  });
  if (!read) return read;
  if (!unpacking) return invalid_response("the archive of " + remote + " is empty");
  if (auto finished = unpacking->finish(); !finished) return from_archive(finished.error());
  return read;
}

}  // namespace opensandbox
