#include "server/template/template_publisher.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "api/lifecycle_error.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "image/registry_credentials.h"
#include "image/registry_push.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"
#include "tls/connector.h"

namespace osb::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLocal = "local://", kFile = "file://", kRegistry = "oci://";

Failure refused(std::string why) { return api::invalid_parameter("/publish", std::move(why)); }

bool is_below(const fs::path& path, const fs::path& directory) {
  const auto [end, rest] = std::ranges::mismatch(directory, path);
  return end == directory.end() && rest != path.end();
}

// A link below a listed directory must not lead out of it: parse_publish() compares names, this compares places.
Result<void> check_place(const PublishTarget& target) {
  std::error_code failed;
  const fs::path listed = fs::canonical(target.directory, failed);
  if (failed) return fail(Code::Internal, target.directory.string() + ": " + failed.message());
  const fs::path parent = fs::canonical(target.file.parent_path(), failed);
  if (failed) return fail(Code::Internal, target.file.parent_path().string() + ": " + failed.message());
  if (parent == listed || is_below(parent, listed)) return {};
  return fail(Code::Forbidden, target.file.parent_path().string() + " leads out of " + target.directory.string());
}

// A file that is being written; gone with the object unless it was given its name.
class PartFile {
 public:
  static Result<PartFile> make(const fs::path& target) {
    PartFile out;
    out.path_ = target.string() + ".part";
    out.target_ = target;
    auto fd = sys::open_at(AT_FDCWD, out.path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (!fd) return Failure(fd.error());
    out.fd_ = std::move(*fd);
    return out;
  }
  PartFile(PartFile&& other) noexcept
      : path_(std::exchange(other.path_, "")), target_(std::move(other.target_)), fd_(std::move(other.fd_)) {}
  ~PartFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Result<void> write(std::string_view bytes) const { return sys::write_all(fd_.get(), bytes, path_); }
  // Durable when it returns.
  Result<void> finish() {
    if (::fsync(fd_.get()) != 0) return sys::from_errno("sync " + path_, errno);
    if (::rename(path_.c_str(), target_.c_str()) != 0) return sys::from_errno("rename " + path_, errno);
    path_.clear();
    auto directory = sys::open_at(AT_FDCWD, target_.parent_path().string(), O_RDONLY | O_DIRECTORY);
    if (!directory) return Failure(directory.error());
    if (::fsync(directory->get()) != 0) return sys::from_errno("sync " + target_.parent_path().string(), errno);
    return {};
  }

 private:
  PartFile() = default;
  std::string path_;
  fs::path target_;
  UniqueFd fd_;
};

// A directory for one archive; gone with the object.
class Scratch {
 public:
  static Result<Scratch> make(fs::path path) {
    std::error_code failed;
    fs::remove_all(path, failed);
    fs::create_directories(path, failed);
    if (failed) return fail(Code::Internal, path.string() + ": " + failed.message());
    return Scratch(std::move(path));
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, fs::path())) {}
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

Result<PublishTarget> parse_file(std::string_view text, const std::vector<std::string>& directories) {
  const fs::path file(text.substr(kFile.size()));
  if (!file.is_absolute() || file.lexically_normal().string() != file.string() || file.extension() != ".tar" ||
      file.stem().string().empty() || file.string().contains('\0')) {
    return refused(in_quotes(text) + " is not file:///DIRECTORY/NAME.tar with an absolute path");
  }
  for (const std::string& each : directories) {
    fs::path directory = fs::path(each).lexically_normal();
    if (!directory.has_filename()) directory = directory.parent_path();
    if (is_below(file, directory)) return PublishTarget{PublishTarget::Kind::File, file, directory, {}};
  }
  return refused("the directory of " + in_quotes(text) +
                 " is not listed; the operator of this server lists directories in [templates] publish_directories");
}

Result<PublishTarget> parse_registry(std::string_view text, const std::vector<std::string>& registries) {
  const std::string_view name = text.substr(kRegistry.size());
  const auto image = image::Reference::parse(name);
  // The registry is spelled out: "oci://debian" would mean Docker Hub.
  if (!image || image->digest || !name.starts_with(image->registry + "/")) {
    return refused(in_quotes(text) + " is not oci://REGISTRY/REPOSITORY:TAG with the registry's name spelled out");
  }
  const std::string place = image->registry + "/" + image->repository;
  for (std::string_view each : registries) {
    while (each.ends_with('/')) each.remove_suffix(1);
    if (place == each || (place.starts_with(each) && place[each.size()] == '/')) {
      return PublishTarget{PublishTarget::Kind::Registry, {}, {}, *image};
    }
  }
  return refused("the registry of " + in_quotes(text) +
                 " is not listed; the operator of this server lists registries in [templates] publish_registries");
}

// Credentials for a registry, read anew each time: the file may have been changed.
Result<std::optional<image::Credentials>> read_credentials(const fs::path& file, const std::string& registry) {
  if (file.empty()) return std::nullopt;
  const auto text = sys::read_text(file.string());
  if (!text) return Failure(text.error());
  auto found = image::credentials_for(registry, *text);
  if (!found) return with_context(file.string(), found.error());
  return found;
}

}  // namespace

Result<PublishTarget> parse_publish(std::string_view text, const PublishPlaces& places) {
  if (text == kLocal) return PublishTarget{};
  if (text.starts_with(kFile)) return parse_file(text, places.directories);
  if (text.starts_with(kRegistry)) return parse_registry(text, places.registries);
  return refused(in_quotes(text) +
                 " is not supported by this server; expected local:// (kept by this server), "
                 "file:///DIRECTORY/NAME.tar in a directory of [templates] publish_directories, or "
                 "oci://REGISTRY/REPOSITORY:TAG in a registry of [templates] publish_registries");
}

TemplatePublisher::TemplatePublisher(net::any_io_executor executor, runtime::Snapshots& snapshots,
                                     const PublishPlaces& places)
    : snapshots_(snapshots), places_(places), registries_(tls::make_connector(std::move(executor))) {
  if (places_.scratch.empty()) return;
  std::error_code failed;
  fs::remove_all(places_.scratch, failed);
  if (failed) {
    log_warn("archives of an earlier process stay", {{"path", places_.scratch.string()}, {"error", failed.message()}});
  }
}

net::awaitable<Result<std::string>> TemplatePublisher::publish(PublishTarget target, std::string template_id,
                                                               std::string snapshot) {
  if (target.kind == PublishTarget::Kind::Local) co_return std::string(kLocal) + template_id;
  if (target.kind == PublishTarget::Kind::Registry) {
    auto pushed = co_await push(target.image, std::move(template_id), std::move(snapshot));
    if (!pushed) co_return with_context("publish to " + target.image.to_string(), pushed.error());
    co_return pushed;
  }
  auto written = co_await write_file(target, std::move(snapshot));
  if (!written) co_return with_context("publish to " + target.file.string(), written.error());
  co_return std::string(kFile) + target.file.string();
}

net::awaitable<Result<std::string>> TemplatePublisher::push(image::Reference name, std::string template_id,
                                                            std::string snapshot) {
  if (places_.scratch.empty()) co_return fail(Code::Internal, "the server has no directory for archives");
  const PublishPlaces places = places_;  // a reload changes them
  auto credentials = co_await disk_.run([&] { return read_credentials(places.registry_auth, name.registry); });
  if (!credentials) co_return Failure(credentials.error());
  auto scratch = co_await disk_.run([&] { return Scratch::make(places.scratch / template_id); });
  if (!scratch) co_return Failure(scratch.error());
  auto archive = co_await snapshots_.export_archive(std::move(snapshot));
  if (!archive) co_return Failure(archive.error());
  image::PushOptions options;
  options.access.credentials = std::move(*credentials);
  options.scratch = scratch->path();
  auto digest = co_await image::push_archive(registries_, disk_, name, std::move(options), **archive);
  if (!digest) co_return Failure(digest.error());
  co_return std::string(kRegistry) + name.to_string() + "@" + digest->to_string();
}

net::awaitable<Result<void>> TemplatePublisher::write_file(PublishTarget target, std::string snapshot) {
  const fs::path& file = target.file;
  if (auto inside = co_await disk_.run([&] { return check_place(target); }); !inside) co_return inside;
  auto archive = co_await snapshots_.export_archive(std::move(snapshot));
  if (!archive) co_return Failure(archive.error());
  auto part = co_await disk_.run([&] { return PartFile::make(file); });
  if (!part) co_return Failure(part.error());
  for (;;) {
    const auto piece = co_await (*archive)->read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) break;
    auto written = co_await disk_.run([&] { return part->write(*piece); });
    if (!written) co_return written;
  }
  co_return co_await disk_.run([&] { return part->finish(); });
}

}  // namespace osb::server
