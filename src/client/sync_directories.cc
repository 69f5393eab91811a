#include <opensandbox/files.h>

#include "client/sync.h"
#include "client/tar_packer.h"
#include "client/tar_unpacker.h"

namespace opensandbox {

Result<std::uint64_t> Files::upload_directory(const std::string& local, const std::string& remote,
                                              const TransferProgress& progress) const {
  auto packer = TarPacker::open(local);
  if (!packer) return Failure(std::move(packer.error()));
  std::uint64_t done = 0;
  return write_archive(remote, [&]() -> Result<std::string_view> {
    if (progress && done > 0) progress(done, std::nullopt);
    auto piece = packer->next();
    if (piece) done += piece->size();
    return piece;
  });
}

Result<std::uint64_t> Files::download_directory(const std::string& remote, const std::string& local,
                                                const TransferProgress& progress) const {
  std::optional<TarUnpacker> unpacker;  // made with the first piece: an error of the sandbox leaves nothing behind
  std::uint64_t done = 0;
  auto read = read_archive(remote, [&](std::string_view piece) -> Result<void> {
    if (!unpacker) {
      auto opened = TarUnpacker::open(local);
      if (!opened) return Failure(std::move(opened.error()));
      unpacker.emplace(std::move(*opened));
    }
    if (auto fed = unpacker->feed(piece); !fed) return fed;
    done += piece.size();
    if (progress) progress(done, std::nullopt);
    return {};
  });
  if (!read) return read;
  if (!unpacker) return invalid_response("the archive of " + remote + " is empty");
  if (auto finished = unpacker->finish(); !finished) return Failure(std::move(finished.error()));
  return read;
}

}  // namespace opensandbox
