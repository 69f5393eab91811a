#include "sandboxd/oci/oci_runtime.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <future>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json.h"
#include "base/log.h"
#include "kernel/mount.h"
#include "sandboxd/oci/bundle.h"
#include "sys/pidfd.h"
#include "sys/remove_tree.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::sandboxd {
namespace {

using std::chrono::seconds;

// Runtimes answer in tenths of seconds; a virtual machine may boot first.
constexpr seconds kRunLimit(30);

constexpr const char* kPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// The messages of a log in JSON, one object after the other, with or without ends of lines between them: that is how
// all runtimes write them. The first tells the cause.
std::string messages_of(const std::string& log) {
  constexpr std::size_t kMost = 1000;
  const auto text = sys::read_text(log);
  std::string out;
  if (!text) return out;
  for (std::string_view left = *text; !left.empty() && out.size() < kMost;) {
    std::size_t end = left.find("}{");
    end = std::min(left.find('\n'), end == std::string_view::npos ? end : end + 1);
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(left.size(), end + (end < left.size() && left[end] == '\n' ? 1 : 0)));
    if (line.empty()) continue;
    std::string said(line);
    if (const auto value = api::parse_json(line)) {
      api::ObjectReader reader(*value, {});
      if (reader.optional_string("level").value_or("error") == "warning") continue;
      if (auto message = reader.optional_string("msg")) said = *message;
    }
    said.resize(std::min(said.size(), kMost));
    if (out.find(said) == std::string::npos) out += (out.empty() ? "" : "; ") + said;
  }
  return out;
}

Result<sys::ExitStatus> wait_for(const sys::Child& child, const std::string& what) {
  const bool ended = sys::wait_ended(child.pidfd.get(), kRunLimit);
  if (!ended) {
    (void)sys::send_signal(child.pidfd.get(), SIGKILL);
    (void)sys::wait_ended(child.pidfd.get(), kRunLimit);
  }
  auto status = sys::reap(child);
  if (!ended) return fail(Code::Timeout, what + ": no end within " + std::to_string(kRunLimit.count()) + " s");
  return status;
}

Result<void> write_file(const std::string& path, std::string_view text) {
  auto file = sys::open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!file) return Failure(file.error());
  return sys::write_all(file->get(), text, path);
}

Result<OciProcess> read_process(const std::string& pid_file) {
  const auto text = sys::read_text(pid_file);
  if (!text) return Failure(text.error());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), pid);
  if (error != std::errc() || pid <= 1) return fail(Code::Internal, pid_file + ": no pid");
  OciProcess out;
  auto pidfd = sys::open_pidfd(pid);
  if (!pidfd) return with_context("the runtime's process", pidfd.error());
  out.pidfd = std::move(*pidfd);
  auto identity = kernel::identify(pid);
  if (!identity) return with_context("the runtime's process", identity.error());
  out.identity = std::move(*identity);
  return out;
}

Result<void> add_mount(LaunchPlan& plan, int directory, const std::string& path, const char* target,
                       bool is_directory) {
  auto mount = kernel::clone_mount(directory, path);
  if (!mount) return Failure(mount.error());
  auto set = kernel::set_mount_attributes(mount->get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!set) return with_context(std::string("mount ") + target, set.error());
  plan.mounts.push_back({std::move(*mount), target, is_directory, !is_directory});
  return {};
}

}  // namespace

OciRuntime::OciRuntime(std::string name, OciProgram program, std::string state_directory)
    : name_(std::move(name)),
      program_(std::move(program)),
      state_directory_(std::move(state_directory)),
      gvisor_(std::filesystem::path(program_.path).filename().string().starts_with("runsc")) {}

// gVisor would keep changed files in its own memory (exclusive access, overlay2), where snapshots miss them, and move
// itself to other cgroups. It refuses options it does not know, so it is asked first.
const std::vector<std::string>& OciRuntime::own_arguments() {
  std::call_once(asked_, [&] {
    if (!gvisor_) return;
    own_arguments_ = {"--ignore-cgroups", "--file-access=shared"};
    const UniqueFd output(::memfd_create("flags", MFD_CLOEXEC));
    sys::SpawnPlan plan;
    plan.program = program_.path;
    plan.argv = {program_.path, "flags"};
    plan.env = {kPath};
    plan.fds = {{1, output.get()}, {2, output.get()}};
    auto child = sys::spawn(plan);
    if (!child || !wait_for(*child, "flags")) return;  // create will tell what is wrong
    const auto text = sys::read_text("/proc/self/fd/" + std::to_string(output.get()));
    if (text && text->find("-overlay2") != std::string::npos) own_arguments_.emplace_back("--overlay2=none");
  });
  return own_arguments_;
}

Result<void> OciRuntime::run(const Run& what) {
  const std::string doing = "runtime " + name_ + ": " + what.command.front();
  sys::SpawnPlan plan;
  plan.program = program_.path;
  plan.argv = {program_.path};
  const auto append = [&](const std::vector<std::string>& more) {
    plan.argv.insert(plan.argv.end(), more.begin(), more.end());
  };
  append(program_.arguments);
  append(own_arguments());
  append({"--root", state_directory_ + "/" + what.id, "--log", what.log, "--log-format", "json"});
  append(what.command);
  plan.env = {kPath};
  plan.group = sys::SpawnPlan::Group::NewSession;
  if (what.in >= 0) plan.fds.emplace_back(0, what.in);
  if (what.out >= 0) plan.fds.insert(plan.fds.end(), {{1, what.out}, {2, what.out}});
  plan.oom_score_adj = what.oom_score_adj;
  if (what.cgroup != nullptr) {
    plan.cgroup_fd = what.cgroup->v2_directory;
    for (const int tasks : what.cgroup->v1_tasks) {
      plan.cgroup_procs.push_back("/proc/self/fd/" + std::to_string(tasks));
    }
  }
  auto child = sys::spawn(plan);
  if (!child) return with_context(doing, child.error());
  if (what.cgroup != nullptr && !child->in_cgroup) {
    (void)sys::send_signal(child->pidfd.get(), SIGKILL);
    (void)wait_for(*child, doing);
    return fail(Code::Internal, doing + ": it could not join the sandbox's cgroup");
  }
  auto status = wait_for(*child, doing);
  if (!status) return Failure(status.error());
  if (status->ok()) return {};
  const std::string said = messages_of(what.log);
  if (!said.empty()) return fail(Code::Internal, doing + ": " + said);
  return fail(Code::Internal, doing + (status->signal != 0 ? ": ended by signal " + std::to_string(status->signal)
                                                           : ": exit code " + std::to_string(status->code)));
}

Result<OciProcess> OciRuntime::launch(LaunchPlan plan, const Container& container) {
  if (plan.netns < 0) return fail(Code::Unsupported, "runtime " + name_ + ": cannot share the host's network");
  if (auto added = add_mount(plan, container.execd, "", kOciExecd, false); !added) return Failure(added.error());
  if (auto added = add_mount(plan, AT_FDCWD, container.exit_directory, kOciExitDirectory, true); !added) {
    return Failure(added.error());
  }
  auto root = mount_bundle_root(plan);
  if (!root) return with_context("runtime " + name_, root.error());
  // A thread of its own: the mount namespace is the runtime's.
  return std::async(std::launch::async, [&] { return create_and_start(plan, container, root->get()); }).get();
}

Result<OciProcess> OciRuntime::create_and_start(LaunchPlan& plan, const Container& container, int root) {
  auto bundle = enter_bundle_namespace(plan, root);
  if (!bundle) return with_context("runtime " + name_, bundle.error());
  const std::string netns = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(plan.netns);
  auto config = encode_bundle_config(plan, *bundle, netns, gvisor_ ? "" : container.cgroup_path);
  if (!config) return Failure(config.error());
  if (auto wrote = write_file(container.bundle + "/config.json", *config); !wrote) return Failure(wrote.error());
  const std::string log = container.bundle + "/runtime.log";
  const std::string pid_file = container.bundle + "/pid";
  auto created = run({.command = {"create", "--bundle", container.bundle, "--pid-file", pid_file, container.id},
                      .id = container.id,
                      .log = log,
                      .in = container.entrypoint_log,
                      .out = container.execd_log,
                      .cgroup = &plan.cgroup,
                      .oom_score_adj = plan.oom_score_adj});
  if (!created) return Failure(created.error());
  // Before the start: an entrypoint may end at once.
  auto process = read_process(pid_file);
  if (!process) return process;
  auto started = run({.command = {"start", container.id},
                      .id = container.id,
                      .log = log,
                      .cgroup = &plan.cgroup,
                      .oom_score_adj = plan.oom_score_adj});
  if (!started) return Failure(started.error());
  return process;
}

void OciRuntime::remove(const std::string& id) {
  struct stat st{};
  if (::lstat((state_directory_ + "/" + id).c_str(), &st) < 0) return;
  // Of gVisor only files are left, and its delete takes more than a second to find that out.
  if (!gvisor_) {
    const std::string log = state_directory_ + "/" + id + ".log";
    if (auto removed = run({.command = {"delete", "--force", id}, .id = id, .log = log}); !removed) {
      log_warn("runtime did not delete", {{"id", id}, {"error", removed.error().message}});
    }
    ::unlink(log.c_str());
  }
  auto directory = sys::open_at(AT_FDCWD, state_directory_, O_RDONLY | O_DIRECTORY);
  if (!directory) return;
  if (auto removed = sys::remove_tree(directory->get(), id); !removed) {
    log_warn("runtime state left", {{"id", id}, {"error", removed.error().message}});
  }
}

}  // namespace osb::sandboxd
