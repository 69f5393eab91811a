#include "kernel/project_quota.h"

#include <cerrno>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <random>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::kernel {
namespace {

long quota_call(int directory, unsigned command, std::uint32_t project, void* argument) {
  return ::syscall(SYS_quotactl_fd, directory, QCMD(command, PRJQUOTA), project, argument);
}

}  // namespace

bool has_project_quotas(int directory) {
  fs_quota_statv status{};
  status.qs_version = FS_QSTATV_VERSION1;
  if (quota_call(directory, Q_XGETQSTATV, 0, &status) == 0) return (status.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
  if_dqinfo info{};
  return quota_call(directory, Q_GETINFO, 0, &info) == 0;
}

Result<std::uint32_t> unused_project(int directory) {
  std::random_device random;
  for (;;) {
    const std::uint32_t project = random() | 0x8000'0000;  // the small ones are what people number by hand
    if_dqblk found{};
    if (quota_call(directory, Q_GETQUOTA, project, &found) < 0) {
      if (errno == ENOENT || errno == ESRCH) return project;
      return sys::from_errno("look at a project's quota", errno);
    }
    if (found.dqb_curinodes == 0 && found.dqb_curspace == 0 && found.dqb_bhardlimit == 0 && found.dqb_ihardlimit == 0)
      return project;
  }
}

Result<void> limit_project(int directory, std::uint32_t project, ProjectLimit wanted) {
  if_dqblk limit{};
  limit.dqb_bhardlimit = limit.dqb_bsoftlimit = (wanted.bytes + QIF_DQBLKSIZE - 1) / QIF_DQBLKSIZE;
  limit.dqb_ihardlimit = limit.dqb_isoftlimit = wanted.inodes;
  limit.dqb_valid = QIF_LIMITS;
  if (quota_call(directory, Q_SETQUOTA, project, &limit) < 0) return sys::from_errno("set a project's quota", errno);
  return {};
}

Result<void> join_project(int directory, std::uint32_t project) {
  fsxattr attributes{};
  if (::ioctl(directory, FS_IOC_FSGETXATTR, &attributes) < 0) return sys::from_errno("look at a project", errno);
  attributes.fsx_projid = project;
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (::ioctl(directory, FS_IOC_FSSETXATTR, &attributes) < 0) return sys::from_errno("set a project", errno);
  return {};
}

std::uint32_t project_of(int directory) {
  fsxattr attributes{};
  return ::ioctl(directory, FS_IOC_FSGETXATTR, &attributes) < 0 ? 0 : attributes.fsx_projid;
}

}  // namespace osb::kernel
