#include "execd/file/archive.h"

#include <fcntl.h>
#include <memory>
#include <optional>

#include "archive/tree_archive.h"
#include "archive/unpacker.h"
#include "execd/file/content/body_pump.h"
#include "execd/file/content/stream.h"
#include "execd/file/content/upload.h"
#include "execd/owner/owner_names.h"
#include "http/range.h"
#include "http/url.h"
#include "sys/staged_file.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kCommit = 256 * 1024;

Result<std::string> path_of(const FileContext& context, const http::Request& request) {
  const http::Query query = http::Query::parse(request.query());
  if (query.get("path").empty()) {
    Error error(Code::InvalidRequest, "query parameter path is required");
    error.reason = "MISSING_QUERY";
    return Failure(std::move(error));
  }
  return context.resolve(query.get("path"));
}

Failure not_a_directory(Error error) {
  if (error.sys_errno == ENOTDIR) error.code = Code::InvalidRequest;
  return Failure(std::move(error));
}

net::awaitable<Result<http::Response>> download(const FileContext& context, http::Request& request) {
  auto path = path_of(context, request);
  if (!path) co_return Failure(path.error());
  std::unique_ptr<archive::TreeArchive> tree;
  // Opened by the first call, on the pool.
  Producer producer = [&owners = context.owners, tree = std::move(tree), path = *path](
                          std::string& out, std::size_t limit) mutable -> Result<bool> {
    if (!tree) {
      const auto names = std::make_shared<OwnerNames>(owners);
      auto opened = archive::TreeArchive::open(path, {.owners = true,
                                                      .user_name = [names](uid_t id) { return names->user_name(id); },
                                                      .group_name = [names](gid_t id) { return names->group_name(id); },
                                                      .special_files = true});
      if (!opened) return not_a_directory(opened.error());
      tree = std::make_unique<archive::TreeArchive>(std::move(*opened));
    }
    return tree->fill(out, limit);
  };
  const std::string name(*path == "/" ? "root" : base_name(*path));
  http::Headers headers{{"Content-Type", "application/x-tar"},
                        {"Content-Disposition", http::attachment_disposition(name + ".tar")}};
  co_return co_await produce_response(context.pool, std::move(headers), std::move(producer), kCommit);
}

// Used on the pool only.
struct Unpacking {
  Unpacking(UniqueFd directory, archive::UnpackRules rules)
      : root(directory.get()), unpacker(std::move(directory), std::move(rules)), reader(unpacker) {}
  const int root;  // the unpacker's
  archive::Unpacker unpacker;
  archive::TarReader reader;
};

archive::UnpackRules unpack_rules(OwnerDatabase& owners) {
  archive::UnpackRules rules;
  rules.owners = archive::UnpackRules::Owners::Attempt;
  rules.user_id = [&owners](std::string_view name) { return owners.user_id(name); };
  rules.group_id = [&owners](std::string_view name) { return owners.group_id(name); };
  rules.mode_mask = 07777;
  return rules;
}

Result<std::unique_ptr<Unpacking>> begin_unpacking(const FileContext& context, const std::string& path) {
  if (auto ok = sys::make_directories(path, 0777); !ok) return not_a_directory(ok.error());
  auto root = sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (!root) return not_a_directory(root.error());
  return std::make_unique<Unpacking>(std::move(*root), unpack_rules(context.owners));
}

net::awaitable<Result<void>> upload(const FileContext& context, http::Request& request) {
  auto path = path_of(context, request);
  if (!path) co_return Failure(path.error());
  std::unique_ptr<Unpacking> unpacking;
  std::uint64_t unchecked = DiskReserve::kStep;
  std::optional<Error> failed;  // of the archive or the disk, not of the connection
  BodyPump pump{.pool = context.pool,
                .read = [&request] { return request.body->read(); },
                .write = [&](std::string_view block, bool last) -> Result<void> {
                  const auto work = [&]() -> Result<void> {
                    if (!unpacking) {
                      auto begun = begin_unpacking(context, *path);
                      if (!begun) return Failure(begun.error());
                      unpacking = std::move(*begun);
                    }
                    if (unchecked += block.size(); unchecked >= DiskReserve::kStep) {
                      if (auto ok = context.reserve.check(unpacking->root, *path); !ok) return ok;
                      unchecked = 0;
                    }
                    if (auto ok = unpacking->reader.feed(block); !ok) return ok;
                    if (!last) return {};
                    if (auto ok = unpacking->reader.finish(); !ok) return ok;
                    return unpacking->unpacker.finish();
                  };
                  auto ok = work();
                  if (!ok) failed = ok.error();
                  return ok;
                }};
  auto done = co_await pump.run();
  if (done) co_return done;
  // Directories that were made are still closed to others: they get their modes all the same.
  if (unpacking) {
    co_await context.pool.run([&] {
      (void)unpacking->unpacker.finish();
      unpacking.reset();
    });
  }
  Error error = failed ? *failed : done.error();
  // Every ENOENT in here is about something inside the archive.
  if (!failed) error.code = Code::InvalidRequest;
  if (error.code == Code::NotFound) error.code = Code::Internal;
  if (error.code == Code::InvalidRequest && error.reason.empty() && error.sys_errno == 0) error.reason = "INVALID_FILE";
  co_return Failure(std::move(error));
}

}  // namespace

net::awaitable<http::Response> download_archive(const FileContext& context, http::Request& request) {
  auto response = co_await download(context, request);
  if (!response) co_return file_problem(response.error());
  co_return std::move(*response);
}

net::awaitable<http::Response> upload_archive(const FileContext& context, http::Request& request) {
  auto done = co_await upload(context, request);
  if (done) co_return http::empty_response();
  co_await drain(*request.body);
  co_return file_problem(done.error());
}

}  // namespace osb::execd
