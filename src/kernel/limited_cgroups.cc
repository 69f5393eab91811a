#include <algorithm>
#include <filesystem>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/text.h"
#include "kernel/cgroup_layout.h"
#include "kernel/limited_cgroup.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

using Dialect = CgroupController::Dialect;
using Kind = CgroupController::Kind;

constexpr const char* kDaemonLeaf = "daemon";

Result<void> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) < 0 && errno != EEXIST) return sys::from_errno("create cgroup " + path, errno);
  return {};
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) {
    const std::size_t end = at + word.size();
    const auto space = [&](std::size_t i) { return i >= text.size() || text[i] == ' ' || text[i] == '\n'; };
    if ((at == 0 || space(at - 1)) && space(end)) return true;
  }
  return false;
}

// The names of a relative path, or an error if it could lead elsewhere.
Result<std::vector<std::string>> components(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    out.emplace_back(path.substr(0, end));
    if (out.back().empty() || out.back().front() == '.') {
      return fail(Code::InvalidRequest, "cgroup parent: expected a relative path such as opensandbox");
    }
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  if (out.empty()) return fail(Code::InvalidRequest, "cgroup parent: expected a name such as opensandbox");
  return out;
}

Result<void> check_id(const std::string& id) {
  // A dot could name one of the kernel's own files.
  const bool ok = !id.empty() && id.size() <= 128 && id != kDaemonLeaf && std::ranges::all_of(id, [](unsigned char c) {
    return is_letter_or_digit(c) || c == '-' || c == '_';
  });
  return ok ? Result<void>() : fail(Code::InvalidRequest, "cgroup name: expected letters, digits, '-' and '_'");
}

bool delegated_by_systemd(const std::string& directory) {
  for (const char* name : {"trusted.delegate", "user.delegate"}) {
    char value[2];
    if (::getxattr(directory.c_str(), name, value, sizeof value) == 1 && value[0] == '1') return true;
  }
  return false;
}

// Where our part of the v2 hierarchy begins (LimitedCgroups::open).
std::string v2_top(const sys::CgroupDirectories::Directory& own) {
  const std::size_t slash = own.path.rfind('/');
  if (own.path != own.mount && own.path.substr(slash + 1) == kDaemonLeaf) {
    const std::string unit = own.path.substr(0, slash);
    if (delegated_by_systemd(unit)) return unit;
  }
  return own.mount;
}

Result<UniqueFd> mount_cgroup2() {
  UniqueFd context(::fsopen("cgroup2", FSOPEN_CLOEXEC));
  if (!context || ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    return sys::from_errno("cgroup2 is not mounted and cannot be", errno);
  }
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  if (!mount) return sys::from_errno("cgroup2 is not mounted and cannot be", errno);
  return mount;
}

Result<void> move_to_leaf(const std::string& directory) {
  const std::string leaf = directory + "/" + kDaemonLeaf;
  if (auto made = make_directory(leaf); !made) return made;
  return sys::move_cgroup_members(directory, leaf);
}

// Enables our controllers for the children of `directory`. Controllers that the kernel refuses (a realtime process
// blocks cpu) stay off and are missing later.
void enable_controllers(const std::string& directory, bool top) {
  const auto offered = sys::read_text(directory + "/cgroup.controllers");
  const auto enabled = sys::read_text(directory + "/cgroup.subtree_control");
  if (!offered || !enabled) return;
  for (const Kind kind : CgroupController::kKinds) {
    const std::string name(CgroupController::name(kind, Dialect::V2));
    if (!has_word(*offered, name) || has_word(*enabled, name)) continue;
    const auto done = sys::write_text(directory + "/cgroup.subtree_control", "+" + name);
    if (!done && done.error().sys_errno == EBUSY && top && move_to_leaf(directory)) {
      (void)sys::write_text(directory + "/cgroup.subtree_control", "+" + name);
    }
  }
}

Result<std::string> make_path(std::string top, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    top += "/" + name;
    if (auto made = make_directory(top); !made) return Failure(made.error());
  }
  return top;
}

constexpr std::string_view kHugePages = "hugetlb";

// For the children of `directory`. Failure leaves huge pages as they are: few hosts have any.
void enable_huge_pages_limit(const std::string& directory) {
  const auto offered = sys::read_text(directory + "/cgroup.controllers");
  if (offered && has_word(*offered, kHugePages))
    (void)sys::write_text(directory + "/cgroup.subtree_control", "+hugetlb");
}

}  // namespace

bool forbid_huge_pages(const std::string& directory, std::string_view suffix) {
  bool found = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("hugetlb.") || !name.ends_with(suffix)) continue;
    found = sys::write_text(entry.path().string(), "0").has_value() || found;
  }
  return found;
}

Result<LimitedCgroups> LimitedCgroups::open(std::string_view parent, const sys::CgroupSources& sources) {
  const auto names = components(parent);
  if (!names) return Failure(names.error());
  const sys::CgroupDirectories found = sys::find_cgroups(sources);
  auto layout = std::make_shared<CgroupLayout>();

  std::string top;
  if (found.v2) {
    top = v2_top(*found.v2);
  } else {
    auto mounted = mount_cgroup2();
    if (!mounted) return Failure(mounted.error());
    layout->own_mount = std::move(*mounted);
    top = fmt::format("/proc/self/fd/{}", layout->own_mount.get());
  }
  layout->v2_parent = top;
  enable_controllers(top, true);
  for (const std::string& name : *names) {
    enable_huge_pages_limit(layout->v2_parent);
    layout->v2_parent += "/" + name;
    if (auto made = make_directory(layout->v2_parent); !made) return Failure(made.error());
    enable_controllers(layout->v2_parent, false);
  }

  const std::string enabled = sys::read_text(layout->v2_parent + "/cgroup.subtree_control").value_or("");
  for (const Kind kind : CgroupController::kKinds) {
    const auto v1 = found.v1.find(CgroupController::name(kind, Dialect::V1));
    if (has_word(enabled, CgroupController::name(kind, Dialect::V2))) {
      auto files = CgroupController::make(kind, Dialect::V2);
      layout->controllers.push_back({kind, Dialect::V2, layout->v2_parent, std::move(files)});
    } else if (v1 != found.v1.end()) {
      auto path = make_path(v1->second.mount, *names);
      if (!path) return Failure(path.error());
      if (std::ranges::find(layout->v1_parents, *path) == layout->v1_parents.end()) {
        layout->v1_parents.push_back(*path);
        if (kind == Kind::Io) layout->io_parent = *path;
      }
      layout->controllers.push_back({kind, Dialect::V1, *path, CgroupController::make(kind, Dialect::V1)});
    }
  }
  if (forbid_huge_pages(layout->v2_parent, ".max")) {
    layout->huge_pages_parent = layout->v2_parent;
  } else if (const auto v1 = found.v1.find(kHugePages); v1 != found.v1.end()) {
    auto path = make_path(v1->second.mount, *names);
    if (!path) return Failure(path.error());
    if (forbid_huge_pages(*path, ".limit_in_bytes")) {
      layout->huge_pages_parent = *path;
      layout->huge_pages_v1 = std::ranges::find(layout->v1_parents, *path) == layout->v1_parents.end();
    }
  }
  return LimitedCgroups(std::move(layout));
}

Result<void> LimitedCgroups::limit_all(const Limits& limits) const {
  for (const Kind kind : {Kind::Memory, Kind::Cpu, Kind::Pids}) {
    const auto it = std::ranges::find(layout_->controllers, kind, &CgroupLayout::Controller::kind);
    const bool limited = CgroupController::limited_by(kind, limits);
    if (it == layout_->controllers.end()) {
      if (!limited) continue;
      return fail(Code::Unsupported, fmt::format("limit of all: this host has no {} cgroup controller",
                                                 CgroupController::name(kind, Dialect::V2)));
    }
    auto done = limited ? it->files->apply(it->parent, limits) : it->files->lift(it->parent);
    if (!done) return with_context("limit of all", done.error());
  }
  return {};
}

CgroupUsage LimitedCgroups::usage_of_all() const {
  CgroupUsage out;
  for (const auto& controller : layout_->controllers) {
    if (controller.kind != Kind::Io) controller.files->read(controller.parent, out);
  }
  return out;
}

Result<LimitedCgroup> LimitedCgroups::create(const std::string& id, const Limits& limits) const {
  if (auto ok = check_id(id); !ok) return Failure(ok.error());
  if (auto ok = check_limits(limits); !ok) return Failure(ok.error());
  LimitedCgroup cgroup(layout_, id);
  // The v2 directory first and by mkdir alone: the process that makes it owns the name.
  const std::string v2 = cgroup.v2_directory();
  if (::mkdir(v2.c_str(), 0755) < 0) return sys::from_errno("create cgroup " + v2, errno);
  Result<void> done = cgroup.make(limits.io.has_value());
  if (done) done = cgroup.update(limits);
  if (done) return cgroup;
  (void)cgroup.remove();
  return Failure(done.error());
}

Result<LimitedCgroup> LimitedCgroups::open_existing(const std::string& id) const {
  if (auto ok = check_id(id); !ok) return Failure(ok.error());
  LimitedCgroup cgroup(layout_, id);
  if (::access(cgroup.v2_directory().c_str(), F_OK) < 0) return sys::from_errno("cgroup " + id, errno);
  return cgroup;
}

std::vector<std::string> LimitedCgroups::view_names() const {
  std::vector<std::string> out;
  for (const auto& [name, path] : view_of(*layout_, "")) out.push_back(name);
  return out;
}

std::vector<std::string> LimitedCgroups::list() const { return sys::cgroups_in(layout_->v2_parent); }

LimitedCgroups::Support LimitedCgroups::support() const {
  Support out;
  out.huge_pages = !layout_->huge_pages_parent.empty();
  out.mode = layout_->v1_parents.empty() ? "v2" : "hybrid";
  for (const auto& controller : layout_->controllers) {
    const bool works = controller.files->can_limit(controller.parent);
    switch (controller.kind) {
      case Kind::Memory:
        out.memory = works;
        out.swap = accounts_swap(controller.parent, controller.dialect);
        break;
      case Kind::Cpu:
        out.cpu = works;
        break;
      case Kind::Pids:
        out.pids = works;
        break;
      case Kind::Io:
        out.io = works;
        break;
    }
  }
  return out;
}

Result<void> LimitedCgroups::remove_parent() const {
  std::vector<std::string> all = layout_->v1_parents;
  all.push_back(layout_->v2_parent);
  if (layout_->huge_pages_v1) all.push_back(layout_->huge_pages_parent);
  for (const std::string& path : all) {
    if (::rmdir(path.c_str()) < 0 && errno != ENOENT) return sys::from_errno("remove cgroup " + path, errno);
  }
  return {};
}

}  // namespace osb::kernel
