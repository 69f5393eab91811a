#include "sandboxd/launch/launch.h"

#include <dirent.h>
#include <fstream>
#include <linux/bpf_common.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <thread>

#include <fmt/format.h>

#include "sandboxd/launch/launch_fixture.h"
#include "sandboxd/launch/seccomp_profile.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LaunchTest, RunsTheProgramAsPidOneAndRoot) {
  EXPECT_EQ(output_of("echo $$; id -u; id -g; hostname; pwd"), "1\n0\n0\nbox\n/\n");
}

TEST_F(LaunchTest, RootInsideIsTheBaseOutside) {
  EXPECT_EQ(output_of("cat /proc/self/uid_map"), fmt::format("{:10} {:10} {:10}\n", 0, kBase, 65'536));
  auto wanted = plan("exec sleep 60");
  auto launched = launch(std::move(wanted));
  ASSERT_FALSE(launched) << "the work directory is used up";
  std::filesystem::remove_all(dir_ / "work");
  std::filesystem::create_directory(dir_ / "work");
  launched = launch(plan("exec sleep 60"));
  ASSERT_TRUE(launched) << launched.error().message;
  const std::string status = sys::read_text(fmt::format("/proc/{}/status", launched->pid)).value_or("");
  EXPECT_THAT(status, HasSubstr(fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}\n", kBase)));
  ::kill(launched->pid, SIGKILL);
  EXPECT_TRUE(sys::reap({launched->pid, std::move(launched->pidfd)}));
}

TEST_F(LaunchTest, FilesLandInUpperWithTheIdsOfTheInside) {
  ASSERT_EQ(output_of("echo hi > /new; chown 7:8 /new; chmod 4755 /new; echo more >> /etc/motd; rm /bin/env"), "");
  const struct stat made = on_disk("upper/new");
  EXPECT_EQ(made.st_uid, 7U);
  EXPECT_EQ(made.st_gid, 8U);
  EXPECT_EQ(on_disk("upper/etc").st_uid, 0U);
  EXPECT_EQ(on_disk("upper/etc/motd").st_uid, 0U);
  EXPECT_TRUE(S_ISCHR(on_disk("upper/bin/env").st_mode)) << "a whiteout";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "upper/etc/hosts"));
}

TEST_F(LaunchTest, SeesNothingOfTheHostsFiles) {
  std::ofstream(dir_ / "secret") << "s";
  auto wanted = plan("ls /; ls -A /root /mnt 2>&1; cat /proc/self/mountinfo");
  const std::string seen = output_of(std::move(wanted));
  EXPECT_THAT(seen, Not(HasSubstr("usr")));
  EXPECT_THAT(seen, Not(HasSubstr("work ")));
  EXPECT_THAT(seen, HasSubstr("ls: /root: No such file"));
  EXPECT_THAT(seen, Not(HasSubstr(dir_.path().string())));
}

TEST_F(LaunchTest, MountsAreFewAndCannotBeChangedFromInside) {
  auto wanted = plan("wc -l < /proc/self/mountinfo; mount -t tmpfs x /tmp; echo $?; mount -o remount,rw /sys; echo $?");
  wanted.capabilities = ~0ULL;
  auto ran = run(std::move(wanted));
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_THAT(ran->output, HasSubstr("permission denied"));
  EXPECT_LE(std::stoi(ran->output), 24) << ran->output;
  EXPECT_THAT(ran->output, ::testing::EndsWith("1\n"));
}

TEST_F(LaunchTest, ProcIsMaskedAndSysReadOnly) {
  const std::string said = output_of(
      "wc -c < /proc/keys; wc -c < /proc/interrupts; cat /proc/timer_list /proc/kmsg | wc -c; ls -A /proc/acpi "
      "2>/dev/null | wc "
      "-l; "
      "echo 1 > /proc/sys/kernel/pid_max; echo 1 > /proc/sys/net/ipv4/ip_forward; echo $?; "
      "grep -c 'sysfs ro' /proc/mounts; ls /proc/1/ >/dev/null && echo own; ls -d /proc/[0-9]* | wc -l");
  EXPECT_THAT(said, ::testing::StartsWith("0\n0\n"));
  EXPECT_THAT(said, HasSubstr("cat: can't open '/proc/timer_list': Permission denied\n"));
  EXPECT_THAT(said, HasSubstr("cat: can't open '/proc/kmsg': Permission denied\n0\n0\n"));
  EXPECT_THAT(said, HasSubstr("can't create /proc/sys/kernel/pid_max: Read-only file system"));
  EXPECT_THAT(said, HasSubstr("can't create /proc/sys/net/ipv4/ip_forward: Read-only file system"));
  EXPECT_THAT(said, HasSubstr("\n1\n1\nown\n"));
}

TEST_F(LaunchTest, DevHasWhatProgramsExpectAndNoMore) {
  EXPECT_EQ(output_of("ls /dev; ls -l /dev/fd /dev/stdin | wc -l"),
            "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n2\n");
}

TEST_F(LaunchTest, DevicesWorkAndBelongToRoot) {
  const std::string said = output_of(
      "echo x > /dev/null && dd if=/dev/zero bs=4 count=1 2>/dev/null | wc -c; stat -c '%u %a %t:%T' /dev/null; "
      "stat -c '%u %a' /dev /dev/shm /dev/pts/ptmx; echo x > /dev/full; echo $?");
  EXPECT_THAT(said, ::testing::StartsWith("4\n0 666 1:3\n0 755\n0 1777\n0 666\n"));
  EXPECT_THAT(said, HasSubstr("No space left"));
}

TEST_F(LaunchTest, DeviceNodesOfTheImageDoNotWork) {
  ASSERT_EQ(::mknod((dir_ / "layer/mem").c_str(), S_IFCHR | 0666, makedev(1, 5)), 0);
  EXPECT_THAT(output_of("cat /mem"), HasSubstr("Permission denied"));
}

TEST_F(LaunchTest, ExtraDevicesAreMadeInDev) {
  auto wanted = plan("stat -c '%a %t:%T' /dev/gpu/card0 && dd if=/dev/gpu/card0 bs=3 count=1 2>/dev/null | wc -c");
  wanted.devices.push_back({"gpu/card0", S_IFCHR | 0660, makedev(1, 5)});
  EXPECT_EQ(output_of(std::move(wanted)), "660 1:5\n3\n");
}

TEST_F(LaunchTest, SharedMemoryHasTheSizeOfThePlan) {
  auto wanted =
      plan("grep ' /dev/shm ' /proc/mounts; dd if=/dev/zero of=/dev/shm/x bs=1024 count=2048 2>&1 | grep -c space");
  wanted.shm_bytes = 1 << 20;
  const std::string said = output_of(std::move(wanted));
  EXPECT_THAT(said, HasSubstr("size=1024k"));
  EXPECT_THAT(said, HasSubstr("nosuid,nodev,noexec"));
  EXPECT_THAT(said, ::testing::EndsWith("\n1\n"));
}

TEST_F(LaunchTest, FilesOfEtcAreSeenButNotPartOfUpper) {
  std::filesystem::create_symlink("../run/systemd/resolve/stub-resolv.conf", dir_ / "layer/etc/resolv.conf");
  auto wanted = plan("cat /etc/hosts /etc/resolv.conf /etc/hostname; echo changed > /etc/hosts && cat /etc/hosts");
  wanted.etc_hosts = "127.0.0.1 localhost\n";
  wanted.etc_resolv_conf = "nameserver 192.0.2.1\n";
  wanted.etc_hostname = "box\n";
  EXPECT_EQ(output_of(std::move(wanted)), "127.0.0.1 localhost\nnameserver 192.0.2.1\nbox\nchanged\n");
  EXPECT_EQ(on_disk("upper/etc/hosts").st_size, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "upper/etc/resolv.conf"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "upper/run"));
}

TEST_F(LaunchTest, CapabilitiesAreThoseOfThePlan) {
  const std::string all = output_of("grep Cap /proc/self/status");
  const std::string expected = fmt::format("{:016x}", kDefaultCapabilities);
  EXPECT_EQ(all, fmt::format("CapInh:\t{1}\nCapPrm:\t{0}\nCapEff:\t{0}\nCapBnd:\t{0}\nCapAmb:\t{1}\n", expected,
                             "0000000000000000"));
}

TEST_F(LaunchTest, AnotherUserHasNoCapabilitiesAndItsGroups) {
  auto wanted = plan("id -u; id -g; id -G; grep CapEff /proc/self/status; touch /x 2>&1");
  wanted.uid = 1000;
  wanted.gid = 1001;
  wanted.groups = {1001, 44};
  const std::string said = output_of(std::move(wanted));
  EXPECT_THAT(said, ::testing::StartsWith("1000\n1001\n1001 44\nCapEff:\t0000000000000000\n"));
  EXPECT_THAT(said, HasSubstr("Permission denied"));
}

TEST_F(LaunchTest, NoNewPrivilegesFollowsThePlan) {
  EXPECT_EQ(output_of("grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t1\n");
}

#ifdef SYS_chmod
constexpr unsigned kChmod = SYS_chmod;
#else
constexpr unsigned kChmod = SYS_fchmodat;
#endif

// Answers chmod with ENOMSG, which the kernel never does.
constexpr sock_filter kNoChmod[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kChmod, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMSG), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};

TEST_F(LaunchTest, SeccompIsActive) {
  auto wanted = plan("chmod 700 /tmp; grep Seccomp: /proc/self/status");
  wanted.seccomp = kNoChmod;
  EXPECT_EQ(output_of(std::move(wanted)), "chmod: /tmp: No message of desired type\nSeccomp:\t2\n");
}

TEST_F(LaunchTest, SeccompIsActiveForAnotherUserWhoMayGainPrivileges) {
  auto wanted = plan("grep -E 'Seccomp:|NoNewPrivs|CapEff' /proc/self/status");
  wanted.seccomp = kNoChmod;
  wanted.no_new_privileges = false;
  wanted.uid = 1000;
  wanted.gid = 1000;
  EXPECT_EQ(output_of(std::move(wanted)), "CapEff:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t2\n");
}

TEST_F(LaunchTest, NestedUserNamespacesAreRefusedUnlessAsked) {
  EXPECT_THAT(output_of("unshare -U true 2>&1; echo $?"), HasSubstr("No space left"));
}

TEST_F(LaunchTest, NestedUserNamespacesWorkWhenAsked) {
  auto wanted = plan("unshare -U echo nested 2>&1; cat /proc/sys/user/max_net_namespaces");
  wanted.nested_user_namespaces = true;
  EXPECT_EQ(output_of(std::move(wanted)), "nested\n64\n") << "with a limit";
}

TEST_F(LaunchTest, ReadOnlyRootLeavesMountsWritable) {
  auto wanted = plan("touch /x 2>&1; touch /scratch/y && echo made; cat /etc/hosts");
  wanted.read_only_root = true;
  wanted.mounts.push_back(tmpfs("/scratch"));
  wanted.etc_hosts = "h\n";
  EXPECT_EQ(output_of(std::move(wanted)), "touch: /x: Read-only file system\nmade\nh\n");
}

TEST_F(LaunchTest, TmpfsHasSizeModeAndOwner) {
  auto wanted = plan("stat -c '%u %a' /deep/er/tmp; grep ' /deep/er/tmp ' /proc/mounts");
  wanted.mounts.push_back(tmpfs("/deep/er/tmp", 2 << 20));
  const std::string said = output_of(std::move(wanted));
  EXPECT_THAT(said, ::testing::StartsWith("0 1777\n"));
  EXPECT_THAT(said, HasSubstr("size=2048k"));
}

TEST_F(LaunchTest, WorkingDirectoryDoesNotLeaveThroughADescriptor) {
  const UniqueFd leak(::open((dir_ / "upper").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::filesystem::create_symlink(fmt::format("/proc/self/fd/{}", leak.get()), dir_ / "layer/link");
  auto wanted = plan("pwd");
  wanted.cwd = "/link";
  EXPECT_FALSE(run(std::move(wanted)));
}

TEST_F(LaunchTest, WorkingDirectoryIsMadeWhenMissing) {
  auto wanted = plan("pwd; stat -c '%u %a' .");
  wanted.cwd = "/srv/app";
  EXPECT_EQ(output_of(std::move(wanted)), "/srv/app\n0 755\n");
}

TEST_F(LaunchTest, OnlyThePlannedDescriptorsAreInherited) {
  const UniqueFd leaked(::open("/etc/passwd", O_RDONLY));  // without close-on-exec
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  auto wanted = plan("ls /proc/self/fd; readlink /proc/1/fd/0; readlink /proc/1/fd/7");
  wanted.fds = {{7, event.get()}};
  EXPECT_EQ(output_of(std::move(wanted)), "0\n1\n2\n3\n7\n/dev/null\nanon_inode:[eventfd]\n");
}

TEST_F(LaunchTest, UlimitsAndOomScoreAreSet) {
  auto wanted = plan(
      "ulimit -n; ulimit -c; cat /proc/self/oom_score_adj; umask; cat /proc/1/stat | grep -c '^1 (.*) [A-Z] 0 1 1 '");
  wanted.ulimits = {{RLIMIT_NOFILE, {123, 456}}, {RLIMIT_CORE, {0, 0}}};
  wanted.oom_score_adj = 300;
  EXPECT_EQ(output_of(std::move(wanted)), "123\n0\n300\n0022\n1\n");
}

TEST_F(LaunchTest, ALimitOfOpenFilesMayBeBelowTheNumberOfOurOwn) {
  std::vector<UniqueFd> ours;
  for (int i = 0; i < 200; ++i) ours.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto wanted = plan("ulimit -n");
  wanted.ulimits = {{RLIMIT_NOFILE, {77, 77}}};
  EXPECT_EQ(output_of(std::move(wanted)), "77\n");
}

TEST_F(LaunchTest, SignalsAreDefaultAndUnblocked) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGUSR1, [](int) {});
  auto wanted = plan("");
  wanted.argv = {"grep", "-E", "SigBlk|SigIgn", "/proc/self/status"};  // no shell: they ignore some themselves
  EXPECT_EQ(output_of(std::move(wanted)), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGUSR1, SIG_DFL);
}

TEST_F(LaunchTest, ItsOwnNamespaces) {
  const std::string inside = output_of("cd /proc/self/ns; for n in mnt pid uts ipc net user; do readlink $n; done");
  for (const char* name : {"mnt", "pid", "uts", "ipc", "net", "user"}) {
    EXPECT_THAT(inside, HasSubstr(fmt::format("{}:[", name)));
    const std::string ours = std::filesystem::read_symlink(fmt::format("/proc/self/ns/{}", name)).string();
    EXPECT_THAT(inside, Not(HasSubstr(ours)));
  }
}

int open_descriptors() {
  int count = 0;
  DIR* dir = ::opendir("/proc/self/fd");
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

TEST_F(LaunchTest, EveryFailureNamesTheStepAndLeavesNothing) {
  ASSERT_EQ(output_of("true"), "");  // what is found out once
  const std::string mounts = sys::read_text("/proc/self/mountinfo").value_or("");
  const UniqueFd no_namespace(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int descriptors = open_descriptors();
  struct {
    const char* message;
    std::function<void(LaunchPlan&)> spoil;
  } rows[] = {
      {"launch: join cgroup: Bad file descriptor", [](LaunchPlan& p) { p.cgroup.v1_tasks = {9999}; }},
      {"launch: join the network namespace: Invalid argument", [&](LaunchPlan& p) { p.netns = no_namespace.get(); }},
      {"launch: set hostname", [](LaunchPlan& p) { p.hostname = std::string(100, 'x'); }},
      {"launch: mount /etc/passwd/x: Not a directory",
       [&](LaunchPlan& p) {
         std::ofstream(dir_ / "layer/etc/passwd") << "x";
         p.mounts.push_back(tmpfs("/etc/passwd/x"));
       }},
      {"launch: make directory /bin/sh: Not a directory", [](LaunchPlan& p) { p.cwd = "/bin/sh"; }},
      {"launch: set a ulimit: Invalid argument", [](LaunchPlan& p) { p.ulimits = {{RLIMIT_NOFILE, {5, 4}}}; }},
      {"launch: switch user: Invalid argument", [](LaunchPlan& p) { p.uid = 70'000; }},
      {"launch: arrange descriptors: Bad file descriptor", [](LaunchPlan& p) { p.fds = {{3, 9999}}; }},
      {"launch: exec: Permission denied", [&](LaunchPlan& p) { p.program = no_namespace.get(); }},
      {"launch: overlay at", [](LaunchPlan& p) { std::get<LayersRoot>(p.root).lower = {"/nonexistent"}; }},
      {"mount point /./proc/x: /proc is the kernel's", [&](LaunchPlan& p) { p.mounts.push_back(tmpfs("/./proc/x")); }},
      {"mount point data: must be an absolute path", [&](LaunchPlan& p) { p.mounts.push_back(tmpfs("data")); }},
  };
  for (const auto& row : rows) {
    std::filesystem::remove_all(dir_ / "work");
    std::filesystem::create_directory(dir_ / "work");
    auto wanted = plan("true");
    row.spoil(wanted);
    const auto ran = run(std::move(wanted));
    ASSERT_FALSE(ran) << row.message;
    EXPECT_THAT(ran.error().message, ::testing::StartsWith(row.message));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1) << row.message;
    EXPECT_EQ(open_descriptors(), descriptors) << row.message;
  }
  EXPECT_EQ(sys::read_text("/proc/self/mountinfo").value_or(""), mounts);
}

TEST_F(LaunchTest, AnImageWhoseProcIsALinkIsRefused) {
  std::filesystem::create_symlink("/etc", dir_ / "layer/proc");
  const auto ran = run(plan("true"));
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "launch: mount /proc: Not a directory");
}

TEST_F(LaunchTest, TheCallersIdentityIsUnchanged) {
  ASSERT_EQ(output_of("true"), "");
  const std::string status = sys::read_text("/proc/thread-self/status").value_or("");
  EXPECT_THAT(status, HasSubstr("Uid:\t0\t0\t0\t0\n"));
  EXPECT_THAT(status, HasSubstr("Gid:\t0\t0\t0\t0\n"));
  std::ofstream(dir_ / "mine") << "x";
  EXPECT_EQ(on_disk("mine").st_uid, 0U);
}

TEST_F(LaunchTest, ManyLayers) {
  LayersRoot root{{}, (dir_ / "upper").string(), (dir_ / "work").string()};
  for (int i = 0; i < 100; ++i) {
    const std::string name = fmt::format("layer-{}", i);
    std::filesystem::create_directory(dir_ / name);
    std::ofstream(dir_ / name / "who") << i << "\n";
    root.lower.push_back((dir_ / name).string());
  }
  root.lower.push_back((dir_ / "layer").string());
  auto wanted = plan("cat /who; grep -c . /proc/self/mountinfo");
  wanted.root = root;
  const std::string said = output_of(std::move(wanted));
  EXPECT_THAT(said, ::testing::StartsWith("0\n"));
  EXPECT_LE(std::stoi(said.substr(2)), 24) << "layers are not mounts of the sandbox";
}

TEST_F(LaunchTest, RunsUnderTheDefaultSeccompProfile) {
  const auto program = seccomp_program({});
  ASSERT_TRUE(program) << program.error().message;
  auto wanted = plan("grep Seccomp: /proc/self/status; id -u; touch /x && ls /x; unshare -U true; echo $?");
  wanted.seccomp = *program;
  wanted.uid = 0;
  EXPECT_EQ(output_of(std::move(wanted)),
            "Seccomp:\t2\n0\n/x\nunshare: unshare(0x10000000): Operation not permitted\n1\n");
}

TEST_F(LaunchTest, ManyAtATime) {
  std::vector<int> good(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < good.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 5; ++i) {
          const std::string name = fmt::format("box-{}-{}", t, i);
          for (const char* sub : {"upper", "work"}) std::filesystem::create_directories(dir_ / name / sub);
          auto wanted = plan(fmt::format("echo {}; touch /made", name));
          wanted.root = LayersRoot{
              {(dir_ / "layer").string()}, (dir_ / name / "upper").string(), (dir_ / name / "work").string()};
          auto ran = run(std::move(wanted));
          if (ran && ran->output == name + "\n" && std::filesystem::exists(dir_ / name / "upper/made")) ++good[t];
        }
      });
    }
  }
  EXPECT_EQ(good, std::vector<int>(8, 5));
}

}  // namespace
}  // namespace osb::sandboxd
