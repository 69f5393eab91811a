#include "execd/file/content/upload.h"

#include <deque>
#include <fcntl.h>
#include <optional>
#include <set>
#include <unistd.h>
#include <variant>
#include <vector>

#include "api/execd_requests.h"
#include "execd/file/content/body_pump.h"
#include "execd/file/content/file_replacement.h"
#include "execd/owner/owner_names.h"
#include "execd/owner/permission.h"
#include "http/multipart.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxMetadata = 64 * 1024;
constexpr std::size_t kMaxStaged = 100;
constexpr std::uint64_t kWritebackStep = 8 * 1024 * 1024;

Error with_reason(Error error, Code code, const char* reason) {
  error.code = code;
  error.reason = reason;
  return error;
}

Failure refuse(const char* reason, std::string message) {
  return Failure(with_reason(Error(Code::InvalidRequest, std::move(message)), Code::InvalidRequest, reason));
}

struct Destination {
  std::string path;
  api::FilePermission permission;
};

// One request. Its members are used on the loop and on threads of the pool, never at the same time.
class Upload {
 public:
  Upload(const FileContext& context, http::MultipartReader& reader)
      : context_(context), reader_(reader), names_(context.owners) {}

  net::awaitable<Result<void>> run() {
    for (;;) {
      auto part = co_await reader_.next_part();
      if (!part) co_return Failure(with_reason(part.error(), Code::InvalidRequest, "INVALID_FILE"));
      if (*part == nullptr) break;
      Result<void> ok;
      if ((*part)->name == "metadata") ok = co_await read_metadata();
      if ((*part)->name == "file") ok = co_await receive_file();
      if (ok && files_.size() > kMaxStaged)
        ok = co_await context_.pool.run([this] { return place_until(kMaxStaged / 2); });
      if (!ok) co_return ok;
    }
    if (metadata_count_ == 0) co_return refuse("INVALID_FILE_METADATA", "upload: no metadata part");
    if (file_count_ == 0) co_return refuse("INVALID_FILE_CONTENT", "upload: no file part");
    if (metadata_count_ != file_count_) {
      co_return refuse("INVALID_FILE", "upload: " + std::to_string(metadata_count_) + " metadata parts, " +
                                           std::to_string(file_count_) + " file parts");
    }
    co_return co_await context_.pool.run([this] { return place_until(0); });
  }

  // Drops what is not in place. Freeing the blocks of a large file takes time: not on the loop.
  net::awaitable<void> discard() {
    co_await context_.pool.run([this] { files_.clear(); });
  }

 private:
  // Contents that came before their metadata wait in the temporary directory.
  using Contents = std::variant<FileReplacement, sys::StagedFile>;

  net::awaitable<Result<void>> read_metadata() {
    auto text = co_await reader_.read_all(kMaxMetadata);
    if (!text) {
      const bool broken = text.error().code != Code::TooLarge;
      co_return Failure(
          with_reason(text.error(), Code::InvalidRequest, broken ? "INVALID_FILE" : "INVALID_FILE_METADATA"));
    }
    auto metadata = api::decode_upload_metadata(*text);
    if (!metadata) co_return Failure(metadata.error());
    auto path = context_.resolve(metadata->path);
    if (!path) co_return Failure(path.error());
    destinations_.push_back({std::move(*path), std::move(metadata->permission)});
    ++metadata_count_;
    co_return Result<void>{};
  }

  net::awaitable<Result<void>> receive_file() {
    const std::size_t waiting = files_.size();
    const bool known = waiting < destinations_.size();
    std::optional<Contents> contents;
    std::uint64_t written = 0, started = 0, checked = 0;
    bool failed_to_write = false;
    BodyPump pump{
        .pool = context_.pool,
        .read = [this] { return reader_.read(); },
        .write = [&](std::string_view block, bool last) -> Result<void> {
          auto ok =
              known ? write_known(destinations_[waiting].path, contents, block, last) : write_unknown(contents, block);
          if (ok && (written == 0 || last || written - checked >= DiskReserve::kStep)) {
            ok = context_.reserve.check(fd_of(*contents), known ? destinations_[waiting].path : temporary_directory());
            checked = written;
          }
          // Start writing back early, so that the sync at the end finds little left to do.
          written += block.size();
          if (ok && !last && written - started >= kWritebackStep) {
            ::sync_file_range(fd_of(*contents), static_cast<off_t>(started), static_cast<off_t>(written - started),
                              SYNC_FILE_RANGE_WRITE);
            started = written;
          }
          failed_to_write = !ok;
          return ok;
        }};
    auto ok = co_await pump.run();
    if (contents) files_.push_back(std::move(*contents));
    if (!ok) {
      if (ok.error().code == Code::Exhausted) co_return ok;
      if (failed_to_write) co_return Failure(with_reason(ok.error(), Code::Internal, "RUNTIME_ERROR"));
      co_return Failure(with_reason(ok.error(), Code::InvalidRequest, "INVALID_FILE"));
    }
    ++file_count_;
    co_return Result<void>{};
  }

  static int fd_of(const Contents& contents) {
    return std::visit([](const auto& file) { return file.fd(); }, contents);
  }

  static Result<void> write_known(const std::string& path, std::optional<Contents>& contents, std::string_view block,
                                  bool last) {
    if (!contents) {
      auto begun = FileReplacement::begin(path);
      if (!begun) return Failure(begun.error());
      contents.emplace(std::move(*begun));
    }
    auto& file = std::get<FileReplacement>(*contents);
    if (auto ok = file.write(block); !ok) return with_context(path, ok.error());
    return last ? file.write_out() : Result<void>{};
  }

  static Result<void> write_unknown(std::optional<Contents>& contents, std::string_view block) {
    if (!contents) {
      auto directory = sys::open_at(AT_FDCWD, temporary_directory(), O_PATH | O_DIRECTORY);
      if (!directory) return Failure(directory.error());
      auto staged = sys::StagedFile::create(directory->get());
      if (!staged) return Failure(staged.error());
      contents.emplace(std::move(*staged));
    }
    return std::get<sys::StagedFile>(*contents).write(block);
  }

  // Puts the first of the waiting files in place.
  Result<void> place_first() {
    const Destination destination = std::move(destinations_.front());
    Contents contents = std::move(files_.front());
    destinations_.pop_front();
    files_.pop_front();
    auto permission = resolve_permission(destination.permission, names_);
    if (!permission) return with_context(destination.path, permission.error());
    if (const auto* staged = std::get_if<sys::StagedFile>(&contents)) {
      auto begun = FileReplacement::begin(destination.path);
      if (!begun) return Failure(begun.error());
      if (auto ok = copy_contents(staged->fd(), begun->fd()); !ok) return with_context(destination.path, ok.error());
      if (auto ok = begun->write_out(); !ok) return ok;
      contents = std::move(*begun);
    }
    auto directory = std::get<FileReplacement>(contents).place(*permission);
    if (!directory) return Failure(directory.error());
    directories_.insert(std::move(*directory));
    placed_.push_back(std::move(std::get<FileReplacement>(contents)));
    return {};
  }

  // Makes the files that are in place durable, even if a later file failed.
  Result<void> sync_placed() {
    Result<void> ok;
    for (FileReplacement& file : placed_) {
      if (auto synced = file.sync(); !synced && ok) ok = synced;
    }
    for (const std::string& path : directories_) {
      if (auto synced = sync_directory(path); !synced && ok) ok = synced;
    }
    placed_.clear();
    directories_.clear();
    return ok;
  }

  // Puts files in place until only `keep` of them wait.
  Result<void> place_until(std::size_t keep) {
    Result<void> ok;
    while (ok && files_.size() > keep && !destinations_.empty()) ok = place_first();
    const auto synced = sync_placed();
    if (ok) ok = synced;
    if (!ok) return Failure(with_reason(ok.error(), Code::Internal, "RUNTIME_ERROR"));
    return {};
  }

  const FileContext& context_;
  http::MultipartReader& reader_;
  OwnerNames names_;
  // Received and not in place yet; the i-th of both belong together.
  std::deque<Destination> destinations_;
  std::deque<Contents> files_;
  std::size_t metadata_count_ = 0;
  std::size_t file_count_ = 0;
  // In place, and not synced yet.
  std::vector<FileReplacement> placed_;
  std::set<std::string> directories_;
};

}  // namespace

net::awaitable<void> drain(http::BodySource& body) {
  constexpr std::uint64_t kAtMost = std::uint64_t{1} << 30;
  for (std::uint64_t seen = 0; seen < kAtMost;) {
    auto piece = co_await body.read();
    if (!piece || piece->empty()) co_return;
    seen += piece->size();
  }
}

net::awaitable<http::Response> upload_files(const FileContext& context, http::Request& request) {
  const auto boundary = http::boundary_of(request.headers.get("Content-Type"));
  if (!boundary) co_return http::problem(400, "INVALID_FILE", boundary.error().message);
  http::MultipartReader reader(*request.body, *boundary);
  Upload upload(context, reader);
  auto done = co_await upload.run();
  if (done) co_return http::empty_response();
  co_await upload.discard();
  co_await drain(*request.body);
  co_return file_problem(done.error());
}

}  // namespace osb::execd
