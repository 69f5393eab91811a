#include <atomic>
#include <fcntl.h>
#include <functional>
#include <opensandbox/files.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/unique_fd.h"
#include "client/local_file.h"
#include "client/overlap.h"
#include "client/sync.h"
#include "sys/syscall.h"

namespace opensandbox {

async::ByteSource byte_source(Caller& caller, const ByteSource& source) {
  return [&caller, &source]() -> async::Task<std::string_view> {
    return caller.run<std::string_view>([&source] { return source(); });
  };
}

// A coroutine with parameters, as a lambda's captures die with it.
async::Task<std::uint64_t> write_behind(Caller& caller, const ByteSink& sink, Download download) {
  WriteBehind behind(co_await net::this_coro::executor, caller, sink);
  auto done = co_await download(behind.sink());
  if (auto written = co_await behind.finish(); !written) co_return Failure(std::move(written.error()));
  co_return done;
}

namespace {

using Upload = std::function<async::Task<std::uint64_t>(async::ByteSource)>;

// A coroutine with parameters, as above. The references outlive the call.
async::Task<std::uint64_t> read_ahead(Caller& caller, const ByteSource& source, Upload upload) {
  ReadAhead ahead(co_await net::this_coro::executor, caller, source);
  auto done = co_await upload(ahead.source());
  co_await ahead.finish();
  co_return done;
}

}  // namespace

Result<std::string> Files::read(const std::string& path, const ReadRange& range) const {
  return impl_->client.core()->run_task(impl_->files.read(path, range));
}

Result<std::uint64_t> Files::read_to(const std::string& path, const ByteSink& sink, const ReadRange& range) const {
  const Download download = [&](async::ByteSink into) { return impl_->files.read_to(path, std::move(into), range); };
  return impl_->client.core()->run([&](Caller& caller) { return write_behind(caller, sink, download); });
}

Result<void> Files::write(const std::string& path, std::string_view data, const Permission& permission) const {
  return impl_->client.core()->run_task(impl_->files.write(path, std::string(data), permission));
}

Result<void> Files::write_all(const std::vector<WriteEntry>& entries) const {
  return impl_->client.core()->run_task(impl_->files.write_all(entries));
}

Result<std::uint64_t> Files::write_from(const std::string& path, const ByteSource& source,
                                        const Permission& permission) const {
  return impl_->client.core()->run(
      [&](Caller& caller) { return impl_->files.write_from(path, byte_source(caller, source), permission); });
}

Result<std::uint64_t> Files::upload(const std::string& local, const std::string& remote, const Permission& permission,
                                    const TransferProgress& progress) const {
  const auto fd = osb::sys::open_at(AT_FDCWD, local, O_RDONLY | O_NOCTTY);
  if (!fd) return from_local(fd.error());
  return upload_fd(fd->get(), remote, permission, progress);
}

Result<std::uint64_t> Files::upload_fd(int fd, const std::string& remote, const Permission& permission,
                                       const TransferProgress& progress) const {
  const auto length = length_of(fd, "the source of " + remote);
  if (!length) return Failure(length.error());
  DescriptorSource reader(fd, "the source of " + remote, *length, progress);
  const ByteSource source = [&reader] { return reader.next(); };
  const Upload upload = [&](async::ByteSource from) {
    return impl_->files.write_from(remote, std::move(from), permission, *length);
  };
  return impl_->client.core()->run([&](Caller& caller) { return read_ahead(caller, source, upload); });
}

Result<std::uint64_t> Files::download_fd(const std::string& remote, int fd, const TransferProgress& progress) const {
  std::uint64_t done = 0;
  std::atomic<std::uint64_t> total = 0;  // 0: not known
  const ByteSink sink = [&](std::string_view piece) -> Result<void> {
    if (auto written = write_fd(fd, piece, "what comes from " + remote); !written) return written;
    done += piece.size();
    if (progress) progress(done, total == 0 ? std::nullopt : std::optional<std::uint64_t>(total));
    return {};
  };
  const Download download = [&](async::ByteSink into) {
    return impl_->files.read_to(remote, std::move(into), {},
                                [&total](std::optional<std::uint64_t> length) { total = length.value_or(0); });
  };
  return impl_->client.core()->run([&](Caller& caller) { return write_behind(caller, sink, download); });
}

Result<std::uint64_t> Files::download(const std::string& remote, const std::string& local,
                                      const TransferProgress& progress) const {
  struct stat st{};
  const bool exists = ::stat(local.c_str(), &st) == 0;
  if (exists && S_ISDIR(st.st_mode)) return local_error("download to " + local + ": is a directory");
  if (exists && !S_ISREG(st.st_mode)) {  // a terminal, /dev/null, a pipe
    const auto fd = osb::sys::open_at(AT_FDCWD, local, O_WRONLY | O_NOCTTY);
    if (!fd) return from_local(fd.error());
    return download_fd(remote, fd->get(), progress);
  }
  const std::string staged = local + ".part-" + osb::new_hex_id().substr(0, 12);
  const osb::UniqueFd fd(::open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) return from_errno("create " + staged, errno);
  auto done = download_fd(remote, fd.get(), progress);
  if (done && exists && ::fchmod(fd.get(), st.st_mode & 07777) < 0) done = from_errno("chmod " + staged, errno);
  if (done && ::rename(staged.c_str(), local.c_str()) < 0) done = from_errno("rename " + staged, errno);
  if (!done) ::unlink(staged.c_str());
  return done;
}

Result<std::uint64_t> Files::read_archive(const std::string& remote, const ByteSink& sink) const {
  const Download download = [&](async::ByteSink into) { return impl_->files.read_archive(remote, std::move(into)); };
  return impl_->client.core()->run([&](Caller& caller) { return write_behind(caller, sink, download); });
}
Result<std::uint64_t> Files::write_archive(const std::string& remote, const ByteSource& source) const {
  return impl_->client.core()->run(
      [&](Caller& caller) { return impl_->files.write_archive(remote, byte_source(caller, source)); });
}

Result<FileInfo> Files::info(const std::string& path) const {
  return impl_->client.core()->run_task(impl_->files.info(path));
}
Result<std::map<std::string, FileInfo>> Files::infos(const std::vector<std::string>& paths) const {
  return impl_->client.core()->run_task(impl_->files.infos(paths));
}
Result<std::vector<FileInfo>> Files::list(const std::string& path, std::optional<int> depth) const {
  return impl_->client.core()->run_task(impl_->files.list(path, depth));
}
Result<std::vector<FileInfo>> Files::search(const std::string& path, const std::string& pattern) const {
  return impl_->client.core()->run_task(impl_->files.search(path, pattern));
}
Result<void> Files::move(const std::string& from, const std::string& to) const { return move_all({{from, to}}); }
Result<void> Files::move_all(const std::vector<std::pair<std::string, std::string>>& moves) const {
  return impl_->client.core()->run_task(impl_->files.move_all(moves));
}
Result<void> Files::remove(const std::vector<std::string>& paths) const {
  return impl_->client.core()->run_task(impl_->files.remove(paths));
}
Result<void> Files::make_directories(const std::vector<std::string>& paths, const Permission& permission) const {
  return impl_->client.core()->run_task(impl_->files.make_directories(paths, permission));
}
Result<void> Files::remove_directories(const std::vector<std::string>& paths) const {
  return impl_->client.core()->run_task(impl_->files.remove_directories(paths));
}
Result<void> Files::set_permissions(const std::map<std::string, Permission>& paths) const {
  return impl_->client.core()->run_task(impl_->files.set_permissions(paths));
}
Result<std::map<std::string, std::int64_t>> Files::replace(const std::vector<Replacement>& replacements) const {
  return impl_->client.core()->run_task(impl_->files.replace(replacements));
}

}  // namespace opensandbox
