#include "kernel/namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sys/text_file.h"

namespace osb::kernel {
namespace {

#define OSB_NEEDS_ROOT() \
  if (::geteuid() != 0) GTEST_SKIP() << "needs root"

// The output of `fn` in a forked child; namespaces it joins stay there.
template <typename F>
std::string in_child(F fn) {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::string said = fn();
    (void)!::write(fds[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(fds[1]);
  std::string out(65536, '\0');
  std::size_t size = 0;
  for (ssize_t got; (got = ::read(fds[0], out.data() + size, out.size() - size)) > 0;) {
    size += static_cast<std::size_t>(got);
  }
  ::close(fds[0]);
  ::waitpid(pid, nullptr, 0);
  out.resize(size);
  return out;
}

TEST(UserNamespace, MapsItsRangeToTheBase) {
  OSB_NEEDS_ROOT();
  auto made = make_user_namespace(1'000'000, 65'536);
  ASSERT_TRUE(made) << made.error().message;
  const std::string maps = in_child([&] {
    if (::setns(made->get(), CLONE_NEWUSER) != 0) return std::string("setns failed");
    return sys::read_text("/proc/self/uid_map").value_or("?") + sys::read_text("/proc/self/gid_map").value_or("?");
  });
  const std::string line = "         0    1000000      65536\n";
  EXPECT_EQ(maps, line + line);
}

TEST(UserNamespace, LeavesNoChildBehind) {
  OSB_NEEDS_ROOT();
  ASSERT_TRUE(make_user_namespace(1'000'000, 65'536));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(UserNamespace, NamesTheRangeThatCannotBeMapped) {
  OSB_NEEDS_ROOT();
  const auto made = make_user_namespace(4'294'967'290, 65'536);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("id 4294967290"), std::string::npos) << made.error().message;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
}

TEST(NetworkNamespace, BelongsToTheUserNamespace) {
  OSB_NEEDS_ROOT();
  auto user = make_user_namespace(2'000'000, 65'536);
  ASSERT_TRUE(user) << user.error().message;
  auto network = make_network_namespace(user->get());
  ASSERT_TRUE(network) << network.error().message;
  const UniqueFd owner(::ioctl(network->get(), NS_GET_USERNS));
  ASSERT_GE(owner.get(), 0);
  struct stat a{}, b{}, ours{}, theirs{};
  ASSERT_EQ(::fstat(owner.get(), &a), 0);
  ASSERT_EQ(::fstat(user->get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  ASSERT_EQ(::stat("/proc/self/ns/net", &ours), 0);
  ASSERT_EQ(::fstat(network->get(), &theirs), 0);
  EXPECT_NE(ours.st_ino, theirs.st_ino);
}

TEST(NetworkNamespace, SaysWhichStepFailed) {
  OSB_NEEDS_ROOT();
  const UniqueFd no_namespace(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto made = make_network_namespace(no_namespace.get());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("join the user namespace"), std::string::npos) << made.error().message;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
}

TEST(Namespaces, CanBeMadeByManyThreadsAtOnce) {
  OSB_NEEDS_ROOT();
  std::vector<std::jthread> threads;
  std::vector<int> good(4);
  for (std::size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 20; ++i) {
        auto user = make_user_namespace(1'000'000 + 65'536 * i, 65'536);
        if (user && make_network_namespace(user->get())) ++good[t];
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, std::vector<int>(4, 20));
}

TEST(EmptyMountNamespace, HoldsAnEmptyRootAndNothingElse) {
  OSB_NEEDS_ROOT();
  auto made = make_empty_mount_namespace();
  ASSERT_TRUE(made) << made.error().message;
  const UniqueFd proc(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  const std::string seen = in_child([&] {
    if (::setns(made->get(), CLONE_NEWNS) != 0) return std::string("setns failed");
    return std::string(::access("/proc", F_OK) == 0 ? "has /proc" : "empty");
  });
  EXPECT_EQ(seen, "empty");
}

TEST(PrivateMountNamespace, DetachesWhatIsNotKeptAndOnlyThere) {
  OSB_NEEDS_ROOT();
  const std::string before = sys::read_text("/proc/self/mountinfo").value_or("");
  const std::string inside = in_child([] {
    // A namespace of the test's own with one mount to keep and one to lose.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return std::string("unshare failed");
    }
    if (::mount("keep", "/mnt", "tmpfs", 0, nullptr) != 0 || ::mkdir("/mnt/state", 0700) != 0 ||
        ::mount("below", "/mnt/state", "tmpfs", 0, nullptr) != 0 ||
        ::mount("lose", "/media", "tmpfs", 0, nullptr) != 0) {
      return std::string("mount failed");
    }
    const std::vector<std::string> keep = {"/mnt/state/sandboxes"};
    if (auto entered = enter_private_mount_namespace(keep); !entered) return entered.error().message;
    return sys::read_text("/proc/self/mountinfo").value_or("?");
  });
  EXPECT_NE(inside.find(" /mnt "), std::string::npos) << inside;
  EXPECT_NE(inside.find(" /mnt/state "), std::string::npos) << inside;
  EXPECT_NE(inside.find(" /proc "), std::string::npos) << inside;
  EXPECT_EQ(inside.find(" /media "), std::string::npos) << inside;
  EXPECT_EQ(sys::read_text("/proc/self/mountinfo").value_or(""), before);
}

}  // namespace
}  // namespace osb::kernel
