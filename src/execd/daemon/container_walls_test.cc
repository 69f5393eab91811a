#include "execd/daemon/container_walls.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace osb::execd {
namespace {

// The filter stays for good: each check has a process of its own. True if `holds` says so there.
bool in_child(bool privileges, const std::function<bool()>& holds, const ContainerWalls& walls = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!privileges) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::_exit(raise_container_walls(walls) && holds() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool limit_is(rlim_t wanted) {
  rlimit now{};
  return ::getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_cur == wanted && now.rlim_max == wanted;
}

TEST(ContainerWalls, TheCoreLimitIsOneByteAndStays) {
  const rlimit none{0, 0};
  EXPECT_TRUE(in_child(false, [] { return limit_is(1); }));
  EXPECT_TRUE(in_child(false, [&] { return ::setrlimit(RLIMIT_CORE, &none) == 0 && limit_is(1); }))
      << "by the C library";
  EXPECT_TRUE(in_child(false, [&] { return ::syscall(SYS_setrlimit, RLIMIT_CORE, &none) == 0 && limit_is(1); }));
  EXPECT_TRUE(in_child(false, [&] {
    return ::syscall(SYS_setrlimit, RLIMIT_CORE | std::uint64_t{1} << 32, &none) == 0 && limit_is(1);
  })) << "the kernel looks at the lower half";
  EXPECT_TRUE(in_child(false, [&] {
    rlimit old{};
    return ::prlimit(0, RLIMIT_CORE, &none, &old) < 0 && errno == EPERM && limit_is(1);
  }));
  EXPECT_TRUE(
      in_child(false, [&] { return ::syscall(SYS_prlimit64, ::getpid(), RLIMIT_CORE, &none, 0) == 0 && limit_is(1); }));
}

TEST(ContainerWalls, OtherLimitsCanBeSet) {
  EXPECT_TRUE(in_child(false, [] {
    const rlimit files{16, 16};
    rlimit now{};
    return ::setrlimit(RLIMIT_NOFILE, &files) == 0 && ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max == 16;
  }));
}

TEST(ContainerWalls, WithPrivilegesToGainThereIsNoFilter) {
  EXPECT_TRUE(in_child(true, [] {
    const rlimit none{0, 0};
    return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && limit_is(1) && ::setrlimit(RLIMIT_CORE, &none) == 0 &&
           limit_is(0);
  }));
}

TEST(ContainerWalls, NoAsynchronousRequestsAreTakenFromTheHost) {
  EXPECT_TRUE(in_child(false, [] {
    std::uintptr_t context = 0;
    return ::syscall(SYS_io_setup, 1, &context) < 0 && errno == ENOSYS;
  }));
}

// Refused with this error, or a file without these bits.
bool is_refused(long result, int wanted = EPERM) { return result < 0 && errno == wanted; }

TEST(ContainerWalls, NoFileGetsASetIdBit) {
  char directory[] = "/tmp/container-walls-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string base = directory, path = base + "/file", made = base + "/made";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  const auto holds = [&](const std::function<bool()>& way) { return in_child(false, way, {.no_set_id_files = true}); };
  for (const mode_t mode : {04755, 02755, 06755}) {
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_fchmod, file.get(), mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_fchmod, file.get(), std::uint64_t{1} << 32 | mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_fchmodat, AT_FDCWD, path.c_str(), mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(452, AT_FDCWD, path.c_str(), mode, 0)); })) << "fchmodat2";
    EXPECT_TRUE(holds([&] { return is_refused(::open(made.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::mknod(made.c_str(), S_IFREG | mode, 0)); }));
#if defined(__x86_64__)
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_chmod, path.c_str(), mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_creat, made.c_str(), mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_open, made.c_str(), O_CREAT | O_WRONLY, mode)); }));
    EXPECT_TRUE(holds([&] { return is_refused(::syscall(SYS_mknod, made.c_str(), S_IFREG | mode, 0)); }));
#endif
  }
  const open_how how{.flags = O_CREAT | O_WRONLY, .mode = 04755, .resolve = 0};
  EXPECT_TRUE(
      holds([&] { return is_refused(::syscall(SYS_openat2, AT_FDCWD, made.c_str(), &how, sizeof how), ENOSYS); }));
  EXPECT_TRUE(holds([&] {
    char parameters[256] = {};
    return is_refused(::syscall(SYS_io_uring_setup, 1, parameters), ENOSYS);
  }));
  EXPECT_TRUE(holds([&] { return is_refused(::ioctl(file.get(), 0x50009417, nullptr), ENOSYS); }));
  EXPECT_NE(::access(made.c_str(), F_OK), 0);

  EXPECT_TRUE(holds([&] {
    return ::fchmod(file.get(), 01755) == 0 && ::open(path.c_str(), O_RDONLY | O_CLOEXEC, 06755) >= 0 &&
           ::open((base + "/other").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0755) >= 0 &&
           ::mkdir((base + "/directory").c_str(), 0755) == 0;
  })) << "other modes, and a mode that is not looked at";
  EXPECT_TRUE(in_child(false, [&] { return ::fchmod(file.get(), 06755) == 0; })) << "without this wall";
  EXPECT_FALSE(in_child(true, [] { return true; }, {.no_set_id_files = true})) << "no filter, no program";
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace osb::execd
