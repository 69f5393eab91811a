#include "sys/openat2.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stop_token>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kInside = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;

UniqueFd open_root(const testing::TempDir& dir) {
  auto root = open_at(AT_FDCWD, dir.path().string(), O_PATH | O_DIRECTORY);
  return root ? std::move(*root) : UniqueFd();
}

// From now on a filter decides about every openat2 of the calling thread. Returns its listener, if `action` has one.
UniqueFd filter_openat2(std::uint32_t action) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(code), .filter = code};
  const unsigned flags = action == SECCOMP_RET_USER_NOTIF ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  EXPECT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  const long listener = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  EXPECT_GE(listener, 0) << std::generic_category().message(errno);
  return UniqueFd(flags != 0 ? static_cast<int>(listener) : -1);
}

// Answers one call of a filtered thread: with an error, or (0) by letting it happen. False: the thread has ended.
bool answer(const UniqueFd& listener, int error) {
  pollfd wanted{.fd = listener.get(), .events = POLLIN, .revents = 0};
  seccomp_notif call{};
  if (::poll(&wanted, 1, -1) != 1 || (wanted.revents & POLLIN) == 0) return false;
  if (::ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return false;
  seccomp_notif_resp reply{};
  reply.id = call.id;
  reply.error = -error;
  reply.flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
  return ::ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_SEND, &reply) == 0;
}

TEST(Openat2, IsRepeatedUntilTheKernelKnows) {
  const testing::TempDir dir;
  const UniqueFd root = open_root(dir);
  std::promise<UniqueFd> filtered;
  std::jthread opener([&] {
    filtered.set_value(filter_openat2(SECCOMP_RET_USER_NOTIF));
    const auto opened = openat2(root.get(), ".", O_PATH, kInside);
    EXPECT_TRUE(opened) << opened.error().message;
  });
  const UniqueFd listener = filtered.get_future().get();
  for (const int error : {EAGAIN, EINTR, EAGAIN, 0}) EXPECT_TRUE(answer(listener, error)) << error;
}

// The plain system call is the witness that the race happens; the wrapper must never show it.
TEST(Openat2, SucceedsWhileOtherDirectoriesAreRenamed) {
  const testing::TempDir dir;
  for (const char* name : {"a", "restless"}) fs::create_directory(dir / name);
  std::string path;
  for (int i = 0; i < 800; ++i) path += "a/../";  // a long walk, so that a rename falls into it on any machine
  path += "a";
  const UniqueFd root = open_root(dir);
  const std::jthread renamer([&](const std::stop_token& stop) {
    const std::string one = dir / "restless", other = dir / "moved";
    while (!stop.stop_requested()) {
      if (::rename(one.c_str(), other.c_str()) != 0 || ::rename(other.c_str(), one.c_str()) != 0) break;
    }
  });
  for (int refused = 0; refused < 4;) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = kInside;
    const UniqueFd plain(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
    if (!plain) {
      ASSERT_EQ(errno, EAGAIN);
      ++refused;
    }
    const auto opened = openat2(root.get(), path, O_PATH, kInside);
    ASSERT_TRUE(opened) << opened.error().message.substr(path.size());
  }
}

TEST(Openat2, GivesUpAfterManyAttemptsAndNamesThePath) {
  const testing::TempDir dir;
  fs::create_directory(dir / "wanted");
  const UniqueFd root = open_root(dir);
  std::thread([&] {
    (void)filter_openat2(SECCOMP_RET_ERRNO | EAGAIN);
    const auto opened = openat2(root.get(), "wanted", O_PATH, kInside);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::Unavailable);
    EXPECT_EQ(opened.error().sys_errno, EAGAIN);
    EXPECT_TRUE(opened.error().message.starts_with("open wanted: ")) << opened.error().message;
  }).join();
}

TEST(Openat2, OtherErrorsAreAnsweredAtOnce) {
  const testing::TempDir dir;
  fs::create_symlink("..", dir / "out");
  const UniqueFd root = open_root(dir);
  const auto missing = openat2(root.get(), "missing", O_PATH, kInside);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::NotFound);
  const auto outside = openat2(root.get(), "out", O_PATH, RESOLVE_BENEATH);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().sys_errno, EXDEV);
}

TEST(Openat2, DescriptorsCloseOnExec) {
  const testing::TempDir dir;
  const UniqueFd root = open_root(dir);
  const auto opened = openat2(root.get(), ".", O_PATH, kInside);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(::fcntl(opened->get(), F_GETFD), FD_CLOEXEC);
}

}  // namespace
}  // namespace osb::sys
