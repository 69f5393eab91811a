#include "sandboxd/launch/stage.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <linux/sched.h>
#include <sched.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "sandboxd/launch/launch_host.h"
#include "sandboxd/launch/root_overlays.h"
#include "sys/clone.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

// The descriptors that the child has sent; empty when it has sent none.
Result<std::vector<UniqueFd>> receive_descriptors(int socket) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (2 + kEtcFiles + kMostMasks))];
  char byte;
  iovec data{&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
    return sys::from_errno("receive a stage", errno);
  std::vector<UniqueFd> out;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return out;
  for (std::size_t at = 0; CMSG_LEN(at) < header->cmsg_len; at += sizeof(int)) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
    out.emplace_back(fd);
  }
  return out;
}

Result<Stage> build(const StagePlan& plan, const LaunchHost& host) {
  const kernel::FileOwner owner(plan.id_base);
  auto overlays = prepare_root_overlays(plan.root, plan.userns);
  if (!overlays) return Failure(overlays.error());

  std::deque<std::string> strings;  // stay where they are
  const auto keep = [&](std::string text) { return strings.emplace_back(std::move(text)).data(); };
  ChildFile files[kEtcFiles] = {{"/mnt/hosts", keep("/etc/hosts"), nullptr, 0, -1},
                                {"/mnt/resolv.conf", keep("/etc/resolv.conf"), nullptr, 0, -1},
                                {"/mnt/hostname", keep("/etc/hostname"), nullptr, 0, -1}};
  std::vector<ChildCgroup> cgroups;
  for (const std::string& name : plan.cgroup_view) {
    if (name.empty()) continue;
    cgroups.push_back({keep("/mnt/cgroup/" + name), keep("/sys/fs/cgroup/" + name), -1});
  }
  ChildPlan child{};
  child.empty_namespace = host.empty_namespace.get();
  child.netns = plan.netns;
  child.root = &overlays->root;
  child.usr = overlays->usr ? &*overlays->usr : nullptr;
  child.upper = layers_of(plan.root).upper.c_str();
  child.etc_files = {files, kEtcFiles};
  child.devpts_options = keep(devpts_options(plan.id_base));
  child.shm_options = keep(shm_options(plan.shm_bytes));
  child.cgroups = {cgroups.data(), cgroups.size()};
  child.masks = {host.masks.data(), host.masks.size()};

  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0) return sys::from_errno("socketpair", errno);
  const UniqueFd ours(pair[0]), theirs(pair[1]);
  child.stage_socket = theirs.get();
  auto cloned = sys::vfork_child(&run_stage_child, &child, {.clone_flags = CLONE_NEWIPC});
  if (!cloned) return Failure(cloned.error());
  (void)sys::reap(*cloned);
  if (child.error != 0) return Failure(error_of_child(child));
  auto made = receive_descriptors(ours.get());
  if (!made) return Failure(made.error());
  if (made->size() < 2 + kEtcFiles) return Failure(error_of_child(child));
  Stage out;
  out.mounts = std::move((*made)[0]);
  out.ipc = std::move((*made)[1]);
  std::move(made->begin() + 2, made->begin() + 2 + kEtcFiles, out.etc_files.begin());
  std::move(made->begin() + 2 + kEtcFiles, made->end(), std::back_inserter(out.empty_directories));
  return out;
}

}  // namespace

Result<Stage> build_stage(StagePlan plan) {
  const Result<LaunchHost>& host = launch_host();
  if (!host) return with_context("stage", host.error());
  if (auto ok = make_usr_directories(plan.root); !ok) return with_context("stage", ok.error());
  auto built = build(plan, *host);
  if (!built) return with_context("stage", built.error());
  return built;
}

}  // namespace osb::sandboxd
