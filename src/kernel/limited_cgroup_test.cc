#include "kernel/limited_cgroup.h"

#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/limited_cgroup_fixture.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

// On the host's real cgroups of any kind: hybrid on most test hosts, v2 in tests/privileged/uml.

namespace osb::kernel {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LimitedCgroupTest, ANewOneHasItsLimitsAndNoMembers) {
  const auto cgroup = make({.memory_bytes = 64 << 20, .cpu_millis = 500, .pids = 50});
  const auto usage = cgroup.usage();
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_EQ(usage->memory_limit_bytes, 64u << 20);
  EXPECT_EQ(usage->pids, 0u);
  EXPECT_EQ(usage->oom_kills, 0u);
  EXPECT_EQ(usage->cpu_usec, 0u);
  EXPECT_EQ(cgroup.populated().value(), false);
  EXPECT_EQ(cgroup.frozen().value(), false);
  EXPECT_EQ(cgroup.wait_empty(0ms).value(), true);
  EXPECT_TRUE(cgroup.remove());
  EXPECT_TRUE(cgroup.remove()) << "gone already";
  EXPECT_TRUE(cgroup.kill()) << "gone already";
  EXPECT_EQ(cgroup.wait_empty(0ms).value(), true) << "gone already";
  EXPECT_EQ(cgroup.usage().error().code, Code::NotFound);
}

TEST_F(LimitedCgroupTest, MembersSeeOrInheritEveryCounter) {
  const auto cgroup = make({.memory_bytes = 64 << 20});
  const auto view = cgroup.open_view();
  ASSERT_TRUE(view) << view.error().message;
  const auto hidden = cgroup.open_hidden_stats();
  const auto files = cgroup.stat_files();
  EXPECT_GE(files.size(), 6U);
  for (const auto& [name, path] : files) {
    bool seen = false;
    for (const auto& [controller, directory] : *view) {
      seen = seen || ::faccessat(directory.get(), name.c_str(), R_OK, 0) == 0;
    }
    // cpu.stat of v1's cpu controller has the name of v2's file and counts no time.
    const auto given = std::ranges::find_if(hidden, [&](const auto& file) { return file.first == name; });
    if (view->size() > 1 && name == "cpu.stat") EXPECT_NE(given, hidden.end());
    EXPECT_TRUE(seen || given != hidden.end()) << name;
    if (given == hidden.end()) continue;
    const auto text = sys::read_text(given->second.get(), name);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, sys::read_text(path).value()) << name;
    EXPECT_EQ(::fcntl(given->second.get(), F_GETFL) & O_ACCMODE, O_RDONLY) << name;
  }
}

TEST_F(LimitedCgroupTest, WithoutAMemoryLimitNoneIsReported) {
  EXPECT_EQ(make().usage()->memory_limit_bytes, std::nullopt);
}

TEST_F(LimitedCgroupTest, ANameBelongsToItsMaker) {
  const auto cgroup = make({}, "box-1");
  EXPECT_EQ(cgroups_->create("box-1", {}).error().code, Code::Conflict);
  EXPECT_THAT(cgroups_->list(), ElementsAre("box-1"));
  EXPECT_EQ(cgroups_->open_existing("box-1")->v2_directory(), cgroup.v2_directory());
  EXPECT_EQ(cgroups_->open_existing("box-2").error().code, Code::NotFound);
  for (const char* bad : {"", "..", "a/b", "daemon", "cgroup.procs", "a b", "a\n"}) {
    EXPECT_EQ(cgroups_->create(bad, {}).error().code, Code::InvalidRequest) << bad;
    EXPECT_EQ(cgroups_->open_existing(bad).error().code, Code::InvalidRequest) << bad;
  }
}

TEST_F(LimitedCgroupTest, LimitsThatCannotBeMetAreNamedAndLeaveNothing) {
  struct {
    Limits limits;
    const char* name;
  } rows[] = {
      {{.memory_bytes = 1 << 20}, "memory limit of 1048576 bytes"},
      {{.memory_bytes = UINT64_MAX}, "memory limit"},
      {{.cpu_millis = 9}, "cpu limit of 9 millis"},
      {{.cpu_millis = UINT64_MAX / 100}, "cpu limit"},
      {{.pids = 1}, "pids limit of 1"},
      {{.pids = UINT64_MAX}, "pids limit"},
      {{.io = Limits::Io{.device = makedev(8, 0), .read_bytes_per_second = 0}}, "io limit"},
  };
  for (const auto& row : rows) {
    const auto made = cgroups_->create("a", row.limits);
    ASSERT_FALSE(made) << row.name;
    EXPECT_EQ(made.error().code, Code::InvalidRequest) << made.error().message;
    EXPECT_THAT(made.error().message, HasSubstr(row.name));
    EXPECT_TRUE(cgroups_->list().empty());
  }
  // This one only the kernel can judge.
  const auto made =
      cgroups_->create("a", {.io = Limits::Io{.device = makedev(250, 77), .read_bytes_per_second = 1000}});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("io limit"));
  EXPECT_EQ(made.error().code, cgroups_->support().io ? Code::InvalidRequest : Code::Unsupported)
      << made.error().message;
  EXPECT_TRUE(cgroups_->list().empty());
}

TEST_F(LimitedCgroupTest, AMemoryHogIsKilledAndCounted) {
  const auto cgroup = make({.memory_bytes = 32 << 20, .pids = 20});
  const auto bystander = start_in(cgroup, sleep_for_ever);
  const auto hog = start_in(cgroup, [] {
    (void)sys::write_text("/proc/self/oom_score_adj", "1000");
    constexpr std::size_t kSize = 256 << 20;
    void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (std::size_t i = 0; i < kSize; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
    return 0;
  });
  const int status = wait_status(hog);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_GE(cgroup.oom_kills().value(), 1u);
  const auto usage = cgroup.usage();
  EXPECT_LE(usage->memory_bytes.value(), 32u << 20);
  if (usage->memory_peak_bytes) {
    EXPECT_GE(*usage->memory_peak_bytes, 16u << 20);
    EXPECT_LE(*usage->memory_peak_bytes, 32u << 20);
  }
  EXPECT_EQ(cgroup.populated().value(), true) << "the bystander lives";
  EXPECT_TRUE(cgroup.kill());
  wait_status(bystander);
}

TEST_F(LimitedCgroupTest, AForkBombStopsAtTheLimit) {
  const auto cgroup = make({.memory_bytes = 256 << 20, .pids = 20});
  const auto bomb = start_in(cgroup, [] {
    int started = 0;
    for (int i = 0; i < 100; ++i) {  // bounded here too
      const pid_t pid = ::fork();
      if (pid == 0) sleep_for_ever();
      if (pid < 0) break;
      ++started;
    }
    return started;
  });
  const int status = wait_status(bomb);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 19) << "and the parent is the twentieth";
  EXPECT_EQ(cgroup.usage()->pids, 19u);
  EXPECT_TRUE(cgroup.kill());
  EXPECT_EQ(cgroup.wait_empty(kSoon).value(), true);
  EXPECT_TRUE(cgroup.remove());
}

TEST_F(LimitedCgroupTest, ACpuQuotaHolds) {
  const auto cgroup = make({.cpu_millis = 100});
  const auto begin = std::chrono::steady_clock::now();
  const auto burner = start_in(cgroup, [] {
    timespec used{};
    do ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (used.tv_sec == 0 && used.tv_nsec < 60'000'000);
    return 0;
  });
  EXPECT_EQ(wait_status(burner), 0);
  // 10 ms in each period of 100: the sixth begins after 500, and the first may have been half over.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 350ms);
  EXPECT_GE(cgroup.usage()->cpu_usec, 50'000u);
}

// Answers each byte with one.
class Echo {
 public:
  explicit Echo(const LimitedCgroup& cgroup) : ask_(*sys::make_pipe()), answer_(*sys::make_pipe()) {
    member_ = start_in(cgroup, [this] {
      char byte;
      while (::read(ask_.read.get(), &byte, 1) == 1 && ::write(answer_.write.get(), &byte, 1) == 1) {
      }
      return 0;
    });
  }
  void ask() { ASSERT_EQ(::write(ask_.write.get(), "x", 1), 1); }
  bool answers(std::chrono::milliseconds within) {
    pollfd waiting{answer_.read.get(), POLLIN, 0};
    char byte;
    return ::poll(&waiting, 1, static_cast<int>(within.count())) == 1 && ::read(waiting.fd, &byte, 1) == 1;
  }
  const Member& member() const { return member_; }

 private:
  sys::Pipe ask_, answer_;
  Member member_;
};

TEST_F(LimitedCgroupTest, FrozenMembersStandStillUntilThawed) {
  const auto cgroup = make();
  Echo echo(cgroup);
  echo.ask();
  ASSERT_TRUE(echo.answers(kSoon));
  const auto frozen = cgroup.freeze(true);
  ASSERT_TRUE(frozen) << frozen.error().message;
  EXPECT_EQ(cgroup.frozen().value(), true);
  EXPECT_TRUE(cgroup.freeze(true)) << "again";
  echo.ask();
  EXPECT_FALSE(echo.answers(100ms));
  ASSERT_TRUE(cgroup.freeze(false));
  EXPECT_EQ(cgroup.frozen().value(), false);
  EXPECT_TRUE(echo.answers(kSoon));
}

TEST_F(LimitedCgroupTest, AProcessThatStartsAnotherLikeVforkCanBeFrozen) {
  const auto cgroup = make();
  auto ready = sys::make_pipe();
  const auto member = start_in(cgroup, [&] {
    // The parent waits in the kernel, as with vfork(), but its memory is not shared.
    const auto pid = ::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) {
      (void)!::write(ready->write.get(), "x", 1);
      sleep_for_ever();
    }
    return 0;
  });
  char byte;
  ASSERT_EQ(::read(ready->read.get(), &byte, 1), 1);
  const auto frozen = cgroup.freeze(true);
  EXPECT_TRUE(frozen) << frozen.error().message;
  EXPECT_TRUE(cgroup.kill());
  wait_status(member);
}

TEST_F(LimitedCgroupTest, AnEmptyOneCanBeFrozen) {
  const auto cgroup = make();
  EXPECT_TRUE(cgroup.freeze(true));
  EXPECT_EQ(cgroup.frozen().value(), true);
  EXPECT_TRUE(cgroup.freeze(false));
  EXPECT_EQ(cgroup.freeze(true, 0ms).has_value(), true) << "an empty cgroup needs no time";
}

TEST_F(LimitedCgroupTest, AFrozenTreeCanBeKilledAndRemoved) {
  const auto cgroup = make({.memory_bytes = 64 << 20, .pids = 50});
  auto ready = sys::make_pipe();
  const auto root = start_in(cgroup, [&] {
    ::setsid();
    ::signal(SIGTERM, SIG_IGN);
    for (int i = 0; i < 5; ++i) {
      if (::fork() == 0) {
        ::setsid();
        (void)!::write(ready->write.get(), "x", 1);
        sleep_for_ever();
      }
    }
    return sleep_for_ever();
  });
  char byte;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(::read(ready->read.get(), &byte, 1), 1);
  ASSERT_TRUE(cgroup.freeze(true));
  ASSERT_TRUE(cgroup.kill());
  EXPECT_EQ(cgroup.wait_empty(kSoon).value(), true);
  const int status = wait_status(root);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const auto removed = cgroup.remove();
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_TRUE(cgroups_->list().empty());
}

TEST_F(LimitedCgroupTest, LiveMembersPreventRemoval) {
  const auto cgroup = make();
  const auto member = start_in(cgroup, sleep_for_ever);
  EXPECT_EQ(cgroup.remove().error().code, Code::Conflict);
  EXPECT_EQ(cgroup.wait_empty(10ms).value(), false);
  EXPECT_THAT(cgroups_->list(), ElementsAre("a")) << "can be tried again";
  EXPECT_TRUE(cgroup.kill());
  EXPECT_EQ(cgroup.wait_empty(kSoon).value(), true);
  EXPECT_TRUE(cgroup.remove()) << "a zombie is no live member";
  wait_status(member);
}

TEST_F(LimitedCgroupTest, CgroupsBelowGoWithIt) {
  const auto cgroup = make();
  const std::string nested = cgroup.v2_directory() + "/x";
  ASSERT_EQ(::mkdir(nested.c_str(), 0755), 0);
  ASSERT_EQ(::mkdir((nested + "/y").c_str(), 0755), 0);
  EXPECT_TRUE(cgroup.remove());
  EXPECT_NE(::access(cgroup.v2_directory().c_str(), F_OK), 0);
}

TEST_F(LimitedCgroupTest, EventsWakeAnEventLoop) {
  const auto cgroup = make();
  const auto events = cgroup.v2().open_events();
  ASSERT_TRUE(events);
  char text[128];
  ASSERT_GT(::pread(events->get(), text, sizeof text, 0), 0);
  pollfd waiting{events->get(), POLLPRI, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0) << "nothing has happened";
  const auto member = start_in(cgroup, [] { return 0; });
  EXPECT_EQ(::poll(&waiting, 1, std::chrono::milliseconds(kSoon).count()), 1);
  EXPECT_TRUE(waiting.revents & POLLPRI);
  wait_status(member);
  EXPECT_EQ(cgroup.wait_empty(kSoon).value(), true);
}

TEST_F(LimitedCgroupTest, LimitsCanChangeWhileMembersRun) {
  const auto cgroup = make({.memory_bytes = 64 << 20, .pids = 20});
  auto ready = sys::make_pipe();
  const auto member = start_in(cgroup, [&] {
    constexpr std::size_t kSize = 32 << 20;
    void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (std::size_t i = 0; i < kSize; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
    (void)!::write(ready->write.get(), "x", 1);
    return sleep_for_ever();
  });
  char byte;
  ASSERT_EQ(::read(ready->read.get(), &byte, 1), 1);
  for (const std::uint64_t bytes : {128u << 20, 48u << 20, 96u << 20}) {
    const auto updated = cgroup.update({.memory_bytes = bytes});
    EXPECT_TRUE(updated) << updated.error().message;
    EXPECT_EQ(cgroup.usage()->memory_limit_bytes, bytes);
  }
  const auto refused = cgroup.update({.memory_bytes = 16 << 20});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Conflict) << refused.error().message;
  EXPECT_EQ(cgroup.usage()->memory_limit_bytes, 96u << 20);
  EXPECT_EQ(cgroup.oom_kills().value(), 0u);
  EXPECT_FALSE(sys::wait_ended(member.pidfd.get(), 0ms)) << "an update kills no process";
  EXPECT_TRUE(cgroup.update({.pids = 30}));
}

TEST_F(LimitedCgroupTest, ShowsItsDirectories) {
  const auto cgroup = make({.memory_bytes = 64 << 20});
  const auto view = cgroup.open_view();
  ASSERT_TRUE(view) << view.error().message;
  const bool v2 = cgroups_->support().mode == "v2";
  for (const auto& [name, directory] : *view) {
    EXPECT_EQ(name.empty(), v2) << name;
    EXPECT_EQ(::faccessat(directory.get(), "cgroup.procs", F_OK, 0), 0) << name;
    if (name != "memory" && !name.empty()) continue;
    EXPECT_EQ(::faccessat(directory.get(), v2 ? "memory.max" : "memory.limit_in_bytes", F_OK, 0), 0);
  }
  EXPECT_EQ(view->size() == 1, v2);
}

TEST_F(LimitedCgroupTest, TheHostHasWhatTheTestsNeed) {
  const auto support = cgroups_->support();
  EXPECT_TRUE(support.memory && support.cpu && support.pids);
}

TEST_F(LimitedCgroupTest, TheParentStaysWhileItIsInUse) {
  make();
  EXPECT_FALSE(cgroups_->remove_parent());
  EXPECT_THAT(cgroups_->list(), ElementsAre("a"));
}

// Takes 48 MiB, says so by a byte to `told` and keeps them.
int take_memory(int told) {
  constexpr std::size_t kSize = 48 << 20;
  auto* memory =
      static_cast<volatile char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::size_t i = 0; i < kSize; i += 4096) memory[i] = 1;
  return ::write(told, "x", 1) == 1 ? sleep_for_ever() : 1;
}

TEST_F(LimitedCgroupTest, AllTogetherHaveAMemoryLimit) {
  ASSERT_TRUE(cgroups_->limit_all({.memory_bytes = 64 << 20}));
  EXPECT_EQ(cgroups_->usage_of_all().memory_limit_bytes, 64u << 20);
  const auto first = make({.memory_bytes = 60 << 20}, "a"), second = make({.memory_bytes = 60 << 20}, "b");
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const UniqueFd heard(told[0]), tell(told[1]);
  const auto one = start_in(first, [&] { return take_memory(tell.get()); });
  char byte = 0;
  ASSERT_EQ(::read(heard.get(), &byte, 1), 1);
  const auto tight = cgroups_->limit_all({.memory_bytes = 16 << 20});
  ASSERT_FALSE(tight) << "an update kills no process";
  EXPECT_EQ(tight.error().code, Code::Conflict) << tight.error().message;
  // Each stays below its own limit, together they do not fit.
  const auto other = start_in(second, [&] { return take_memory(tell.get()); });
  pollfd ends[] = {{one.pidfd.get(), POLLIN, 0}, {other.pidfd.get(), POLLIN, 0}};
  ASSERT_GE(::poll(ends, 2, 30'000), 1);
  EXPECT_GE(first.oom_kills().value() + second.oom_kills().value(), 1u);
  EXPECT_LE(cgroups_->usage_of_all().memory_bytes.value(), 64u << 20);
  EXPECT_TRUE(cgroups_->limit_all({}));
  EXPECT_EQ(cgroups_->usage_of_all().memory_limit_bytes, std::nullopt);
}

TEST_F(LimitedCgroupTest, AllTogetherHaveAPidsLimit) {
  ASSERT_TRUE(cgroups_->limit_all({.pids = 10}));
  const auto first = make({.pids = 20}, "a"), second = make({.pids = 20}, "b");
  const auto bomb = [] {
    int started = 0;
    for (; started < 20; ++started) {
      const pid_t child = ::fork();
      if (child < 0) break;
      if (child == 0) sleep_for_ever();
    }
    return started;
  };
  const int one = wait_status(start_in(first, bomb)), other = wait_status(start_in(second, bomb));
  EXPECT_EQ(WEXITSTATUS(one), 9);
  EXPECT_LE(WEXITSTATUS(other), 1) << "the bombs' children fill all places but one or two";
  EXPECT_LE(cgroups_->usage_of_all().pids.value(), 10u);
}

TEST_F(LimitedCgroupTest, HugePagesAreForbiddenWhereTheKernelCanDoSo) {
  const std::string parent = make().v2_directory() + "/..";
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("hugetlb.") || !name.ends_with(".max")) continue;
    ++seen;
    EXPECT_EQ(sys::read_text(entry.path().string()).value(), "0\n") << name;
  }
  EXPECT_EQ(seen > 0, cgroups_->support().huge_pages);
}

TEST_F(LimitedCgroupTest, AnIoLimitHoldsForDirectWrites) {
  const testing::TempDir directory;
  const auto device = io_device(directory.path());
  if (!device) GTEST_SKIP() << device.error().message;
  if (!cgroups_->support().io) GTEST_SKIP() << "this kernel has no io limits";
  const auto cgroup = make({.io = Limits::Io{.device = *device, .write_bytes_per_second = 4 << 20}});
  const auto begin = std::chrono::steady_clock::now();
  const auto writer = start_in(cgroup, [&] {
    const int fd = ::open((directory / "file").c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    alignas(4096) static char block[1 << 20];
    for (int i = 0; i < 4; ++i) {
      if (::write(fd, block, sizeof block) != sizeof block) return errno;
    }
    return 0;
  });
  EXPECT_EQ(wait_status(writer), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 500ms) << "4 MiB at 4 MiB/s, some of it in advance";
  EXPECT_GE(cgroup.usage()->io_write_bytes.value(), 4u << 20);
  EXPECT_TRUE(cgroup.update({.io = Limits::Io{.device = *device, .read_bytes_per_second = 1 << 20}}));
  EXPECT_TRUE(cgroup.update({.io = Limits::Io{.device = *device, .reads_per_second = 100, .writes_per_second = 200}}));
}

TEST(IoDevice, IsTheDiskOfAPath) {
  const auto none = io_device("/proc");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::Unsupported) << none.error().message;
  EXPECT_EQ(io_device("/no/such/path").error().code, Code::NotFound);
}

}  // namespace
}  // namespace osb::kernel
