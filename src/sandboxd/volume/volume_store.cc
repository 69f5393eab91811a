#include "sandboxd/volume/volume_store.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "sandboxd/snapshot/staged_directory.h"
#include "sandboxd/volume/host_path.h"
#include "sandboxd/volume/volume_mount.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

namespace {

Failure failure(Code code, const char* reason, std::string message) {
  Error error(code, std::move(message));
  error.reason = reason;
  return Failure(std::move(error));
}

Failure no_such_volume(const std::string& name) {
  return failure(Code::NotFound, "VOLUME::PVC_NOT_FOUND", fmt::format("volume {}: does not exist", name));
}

Result<UniqueFd> open_sub_path(UniqueFd base, const Volume& spec, HostOwners* owners) {
  if (spec.sub_path.empty()) return base;
  auto found = open_beneath(base.get(), spec.sub_path);
  if (!found && found.error().sys_errno == ENOENT && spec.create) {
    found = make_beneath(base.get(), spec.sub_path, owners);
  }
  if (found) return found;
  const bool leads_out = found.error().sys_errno == EXDEV || found.error().sys_errno == ELOOP;
  return failure(Code::InvalidRequest, "VOLUME::INVALID_SUB_PATH",
                 leads_out ? fmt::format("sub-path {} leads out of {}", spec.sub_path, spec.source)
                           : fmt::format("sub-path of {}: {}", spec.source, found.error().message));
}

}  // namespace

struct VolumeStore::State {
  class Uses;

  State(VolumeConfig wanted, StagedDirectory volumes, HostPaths paths)
      : config(std::move(wanted)),
        directory(std::move(volumes)),
        host_paths(std::move(paths)),
        host_owners(config.host_ids, config.file_ids) {}

  VolumeConfig config;
  StagedDirectory directory;
  HostPaths host_paths;
  HostOwners host_owners;

  mutable std::mutex mutex;
  std::map<std::string, std::size_t> uses;  // by PreparedVolumes that exist

  void after_step(std::string_view step) const {
    if (config.after_step) config.after_step(step);
  }
  // With the mutex held.
  Result<void> make(const std::string& name) {
    if (auto room = config.reserve.check(); !room) return room;
    auto staged = directory.stage(0755, config.volume_bytes);
    if (!staged) return Failure(staged.error());
    after_step("volume staged");
    auto done = directory.publish(*staged, name);
    after_step("volume published");
    return done;
  }
  void release(const std::string& name) {
    const auto it = uses.find(name);
    if (--it->second == 0) uses.erase(it);
  }
};

// The volumes of one request, counted as used while it exists. New volumes of the request are removed with it unless it
// is kept.
class VolumeStore::State::Uses {
 public:
  explicit Uses(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Uses(const Uses&) = delete;
  Uses& operator=(const Uses&) = delete;
  ~Uses() {
    std::vector<StagedDirectory::Staged> withdrawn;  // removed after the lock
    const std::lock_guard lock(state_->mutex);
    for (const std::string& name : names_) state_->release(name);
    if (kept_) return;
    for (const std::string& name : created_) {
      if (state_->uses.contains(name)) continue;  // another request has it by now
      auto gone = state_->directory.withdraw(name);
      if (gone) {
        withdrawn.push_back(std::move(*gone));
      } else {
        log_warn("volume of a failed request stays", {{"volume", name}, {"error", gone.error().message}});
      }
    }
  }

  Result<UniqueFd> open(const Volume& spec) {
    const std::lock_guard lock(state_->mutex);
    const int directory = state_->directory.fd();
    const std::string files = spec.source + state_->config.trees.below_volume();
    auto found = sys::open_at(directory, files, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (!found && found.error().sys_errno == ENOENT) {
      if (!spec.create) return no_such_volume(spec.source);
      if (auto made = state_->make(spec.source); !made) return Failure(made.error());
      created_.push_back(spec.source);
      found = sys::open_at(directory, files, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    }
    if (!found) return found;
    names_.push_back(spec.source);
    ++state_->uses[spec.source];
    return found;
  }

  void hold(std::span<const std::string> names) {
    const std::lock_guard lock(state_->mutex);
    for (const std::string& name : names) {
      names_.push_back(name);
      ++state_->uses[name];
    }
  }

  const std::vector<std::string>& created() const { return created_; }
  void keep() { kept_ = true; }

 private:
  std::shared_ptr<State> state_;
  std::vector<std::string> names_;
  std::vector<std::string> created_;
  bool kept_ = false;
};

VolumeStore::VolumeStore(std::shared_ptr<State> state) : state_(std::move(state)) {}
VolumeStore::~VolumeStore() = default;

Result<std::unique_ptr<VolumeStore>> VolumeStore::open(VolumeConfig config) {
  auto directory = StagedDirectory::open(config.directory, config.trees);
  if (!directory) return with_context("volumes", directory.error());
  HostPaths host_paths(config.allowed_host_paths, config.own_directories);
  auto state = std::make_shared<State>(std::move(config), std::move(*directory), std::move(host_paths));
  return std::unique_ptr<VolumeStore>(new VolumeStore(std::move(state)));
}

Result<PreparedVolumes> VolumeStore::prepare(std::span<const Volume> specs, int userns, std::uint32_t id_base) {
  if (auto checked = check_volumes(specs); !checked) return Failure(checked.error());
  auto uses = std::make_shared<State::Uses>(state_);
  PreparedVolumes out;
  for (const Volume& spec : specs) {
    PreparedMount mount;
    mount.target = spec.target;
    mount.read_only = spec.read_only;
    if (spec.kind == VolumeKind::Tmpfs) {
      const std::uint64_t bytes = spec.size_bytes.value_or(0) > 0 ? *spec.size_bytes : kDefaultTmpfsBytes;
      auto tmpfs = make_tmpfs(bytes, id_base, spec.read_only);
      if (!tmpfs) return with_context(spec.target, tmpfs.error());
      mount.mount = std::move(*tmpfs);
      out.mounts.push_back(std::move(mount));
      continue;
    }
    const bool host = spec.kind == VolumeKind::Host;
    HostOwners& owners = state_->host_owners;
    auto base = host ? state_->host_paths.open(spec.source, spec.create, owners,
                                               [this] { state_->after_step("host path checked"); })
                     : uses->open(spec);
    if (!base) return Failure(base.error());
    auto source = open_sub_path(std::move(*base), spec, host ? &owners : nullptr);
    if (!source) return Failure(source.error());
    struct stat st;
    if (::fstat(source->get(), &st) < 0) return sys::from_errno("stat " + spec.source, errno);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
      return failure(Code::InvalidRequest, "VOLUME::INVALID_SUB_PATH",
                     fmt::format("sub-path {}: neither a directory nor a regular file", spec.sub_path));
    }
    mount.is_directory = S_ISDIR(st.st_mode);
    HostOwners::View ids{.userns = userns};
    if (host) {
      auto seen = owners.view(spec.source, source->get(), st, spec.read_only, userns, id_base);
      if (!seen) return Failure(seen.error());
      ids = std::move(*seen);
    }
    auto cloned = clone_volume(source->get(), ids.userns, spec.read_only, spec.source);
    if (!cloned) return Failure(cloned.error());
    mount.mount = std::move(*cloned);
    out.mounts.push_back(std::move(mount));
    state_->after_step("volume opened");
  }
  // "/a" before "/a/b".
  std::ranges::sort(out.mounts, {}, &PreparedMount::target);
  out.created = uses->created();
  for (const Volume& spec : specs) {
    if (spec.kind != VolumeKind::Named || !spec.delete_with_sandbox) continue;
    const auto has = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, spec.source) != names.end();
    };
    if (has(out.created) && !has(out.to_delete)) out.to_delete.push_back(spec.source);
  }
  uses->keep();
  out.in_use = std::move(uses);
  return out;
}

std::shared_ptr<void> VolumeStore::hold(std::span<const std::string> names) {
  auto uses = std::make_shared<State::Uses>(state_);
  uses->hold(names);
  return uses;
}

Result<std::vector<std::string>> VolumeStore::list() const { return state_->directory.names(); }

Result<void> VolumeStore::create(const std::string& name) {
  if (auto checked = check_volume_name(name); !checked) return checked;
  const std::lock_guard lock(state_->mutex);
  auto made = state_->make(name);
  if (!made && made.error().code == Code::Conflict) return fail(Code::Conflict, fmt::format("volume {}: exists", name));
  return made;
}

Result<void> VolumeStore::remove(const std::string& name, std::size_t sandboxes) {
  if (auto checked = check_volume_name(name); !checked) return checked;
  std::optional<StagedDirectory::Staged> removed;  // removed after the lock: it can be large
  const std::lock_guard lock(state_->mutex);
  const auto used = state_->uses.find(name);
  if (sandboxes > 0 || used != state_->uses.end()) {
    return fail(Code::Conflict, fmt::format("volume {}: a sandbox uses it; delete that first", name));
  }
  auto withdrawn = state_->directory.withdraw(name);
  if (!withdrawn && withdrawn.error().code == Code::NotFound) return no_such_volume(name);
  if (!withdrawn) return Failure(withdrawn.error());
  removed.emplace(std::move(*withdrawn));
  state_->after_step("volume withdrawn");
  return {};
}

}  // namespace osb::sandboxd
