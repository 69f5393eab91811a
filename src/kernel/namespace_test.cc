#include "kernel/namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
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

uid_t owner_of(int userns) {
  uid_t owner = 0;
  EXPECT_EQ(::ioctl(userns, NS_GET_OWNER_UID, &owner), 0);
  return owner;
}

// Runs `fn` as root of the namespace.
template <typename F>
std::string as_root_in(int userns, F fn) {
  return in_child([&]() -> std::string {
    if (::setns(userns, CLONE_NEWUSER) != 0) return "setns failed";
    if (::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) return "cannot become root";
    return fn();
  });
}

int inotify_instances(int most) {
  int made = 0;
  while (made < most && ::inotify_init1(IN_CLOEXEC) >= 0) ++made;
  return made;
}

TEST(UserNamespace, BelongsToItsOwnRange) {
  OSB_NEEDS_ROOT();
  auto made = make_user_namespace(1'000'000, 65'536);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(owner_of(made->get()), 1'000'000u);
}

TEST(UserNamespace, UsesUpNothingOfRootOrOfItsNeighbours) {
  OSB_NEEDS_ROOT();
  const int most = std::stoi(sys::read_text("/proc/sys/user/max_inotify_instances").value_or("128"));
  if (most > 4096) GTEST_SKIP() << "this host allows " << most << " inotify instances: too many to exhaust";
  struct rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  auto first = make_user_namespace(1'000'000, 65'536);
  auto second = make_user_namespace(2'000'000, 65'536);
  ASSERT_TRUE(first && second);
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t hog = ::fork();
  if (hog == 0) {
    ::close(done[1]);
    as_root_in(first->get(), [&] {
      const std::string got = std::to_string(inotify_instances(most + 1));
      (void)!::write(ready[1], got.data(), got.size());
      char byte;
      (void)!::read(done[0], &byte, 1);
      return std::string();
    });
    ::_exit(0);
  }
  char text[32] = {};
  ASSERT_GT(::read(ready[0], text, sizeof text - 1), 0);
  EXPECT_LE(std::stoi(text), most);
  EXPECT_GT(std::stoi(text), 0);
  EXPECT_EQ(as_root_in(second->get(), [] { return std::to_string(inotify_instances(1)); }), "1");
  EXPECT_EQ(in_child([] { return std::to_string(inotify_instances(1)); }), "1") << "root of the host";
  ::close(done[1]);
  ::waitpid(hog, nullptr, 0);
  for (const int fd : {ready[0], ready[1], done[0]}) ::close(fd);
}

TEST(UserNamespace, LimitsItsUsersTogether) {
  OSB_NEEDS_ROOT();
  auto made = make_user_namespace(1'000'000, 65'536);
  ASSERT_TRUE(made) << made.error().message;
  const std::string said = as_root_in(made->get(), [&] {
    sigset_t blocked;
    ::sigfillset(&blocked);
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    int sent = 0;
    union sigval value{};
    while (sent <= static_cast<int>(kMostPendingSignals) && ::sigqueue(::getpid(), SIGRTMIN, value) == 0) ++sent;
    // Another user of the namespace has no share of its own.
    const bool other = ::setresuid(7, 7, 7) == 0 && ::sigqueue(::getpid(), SIGRTMIN, value) == 0;
    return fmt::format("{} {}", sent > 0 && sent <= static_cast<int>(kMostPendingSignals), other);
  });
  EXPECT_EQ(said, "true false");
}

TEST(IdMap, ShowsEachRangeOfItsMaps) {
  OSB_NEEDS_ROOT();
  const IdRange users[] = {{1000, 2'000'000, 1}, {900'001, 2'000'001, 65'535}};
  const IdRange groups[] = {{50, 2'000'000, 1}};
  auto made = make_id_map(users, groups);
  ASSERT_TRUE(made) << made.error().message;
  const std::string maps = in_child([&] {
    if (::setns(made->get(), CLONE_NEWUSER) != 0) return std::string("setns failed");
    return sys::read_text("/proc/self/uid_map").value_or("?") + sys::read_text("/proc/self/gid_map").value_or("?");
  });
  EXPECT_EQ(maps,
            "      1000    2000000          1\n    900001    2000001      65535\n        50    2000000          1\n");
  const IdRange overlapping[] = {{0, 2'000'000, 2}, {1, 3'000'000, 1}};
  EXPECT_FALSE(make_id_map(overlapping, groups));
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
