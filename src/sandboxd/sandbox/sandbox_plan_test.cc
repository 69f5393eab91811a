#include "sandboxd/sandbox/sandbox_plan.h"

#include <algorithm>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

using api::native::CreateSandbox;
using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

ResolvedImage image() {
  ResolvedImage out;
  out.name = "docker.io/library/box:latest";
  out.config.env = {"A=image", "B=image"};
  out.config.entrypoint = {"/init"};
  out.config.cmd = {"--fast"};
  out.config.working_dir = "/srv";
  return out;
}

HostFacts facts() {
  HostFacts out;
  out.layers = Words{"/layers/top", "/layers/base"};
  out.resolv_conf = "nameserver 192.0.2.1\n";
  out.user = ImageUser{.uid = 1000, .gid = 100, .groups = {100, 27}, .home = "/home/box"};
  return out;
}

CreateSandbox request() {
  CreateSandbox out;
  out.id = "0123456789abcdef";
  return out;
}

Result<SandboxPlan> plan(const CreateSandbox& spec, const SandboxConfig& config = {}, HostFacts host = facts()) {
  return plan_sandbox(spec, "secret", image(), std::move(host), config);
}

// As many open files as are given without asking; a test without CAP_SYS_RESOURCE has fewer.
Ulimit default_files() {
  rlimit own{};
  ::getrlimit(RLIMIT_NOFILE, &own);
  return {RLIMIT_NOFILE, {std::min<rlim_t>(65536, own.rlim_max), std::min<rlim_t>(524288, own.rlim_max)}};
}

// The plan of a request that asks for nothing but an id.
SandboxPlan ordinary() {
  SandboxPlan out;
  out.id = "0123456789abcdef";
  out.layers = {"/layers/top", "/layers/base"};
  out.takes_ready_root = true;
  out.limits.pids = 4096;
  out.ulimits = {{RLIMIT_CORE, {1, 1}}, default_files()};
  out.shm_bytes = 64 << 20;
  out.hostname = "0123456789ab";
  out.resolv_conf = "nameserver 192.0.2.1\n";
  out.user = ImageUser{.uid = 1000, .gid = 100, .groups = {100, 27}, .home = "/home/box"};
  out.entrypoint = {"/init", "--fast"};
  out.env = {"A=image",
             "B=image",
             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
             "HOME=/home/box",
             "EXECD_ENVS=/opt/opensandbox/.env",
             "EXECD_ACCESS_TOKEN=secret"};
  out.cwd = "/srv";
  return out;
}

TEST(SandboxPlan, AnEmptyRequestGetsTheImagesAndTheHostsDefaults) { EXPECT_EQ(plan(request()).value(), ordinary()); }

TEST(SandboxPlan, EveryFieldOfTheRequestHasItsPlaceInThePlan) {
  struct {
    const char* field;
    std::function<void(CreateSandbox&)> ask;
    std::function<void(SandboxPlan&)> expect;
  } rows[] = {
      {"entrypoint", [](auto& r) { r.entrypoint = {"sleep", "1"}; }, [](auto& p) { p.entrypoint = {"sleep", "1"}; }},
      {"cwd", [](auto& r) { r.cwd = "/work"; }, [](auto& p) { p.cwd = "/work"; }},
      {"hostname", [](auto& r) { r.hostname = "box"; }, [](auto& p) { p.hostname = "box"; }},
      {"dns", [](auto& r) { r.dns = {"192.0.2.9"}; }, [](auto& p) { p.resolv_conf = "nameserver 192.0.2.9\n"; }},
      {"memory, cpu, pids",
       [](auto& r) {
         r.limits.memory_bytes = 1 << 30;
         r.limits.cpu_millis = 500;
         r.limits.pids = 99;
       },
       [](auto& p) { p.limits = {.memory_bytes = 1 << 30, .cpu_millis = 500, .pids = 99}; }},
      {"io", [](auto& r) { r.limits.io_bytes_per_second = 1000; },
       [](auto& p) { p.limits.io = kernel::Limits::Io{0, 1000, 1000, {}, {}}; }},
      {"io in both directions, bytes and operations",
       [](auto& r) {
         r.limits.io_bytes_per_second = 1000;
         r.limits.io_write_bps = 500;
         r.limits.io_read_iops = 7;
         r.limits.io_write_iops = 8;
       },
       [](auto& p) { p.limits.io = kernel::Limits::Io{0, 1000, 500, 7, 8}; }},
      {"a disk limit", [](auto& r) { r.limits.disk_bytes = 1 << 20; }, [](auto& p) { p.disk_bytes = 1 << 20; }},
      {"bandwidth",
       [](auto& r) {
         r.limits.network_receive_bps = 3000;
         r.limits.network_send_bps = 4000;
       },
       [](auto& p) { p.bandwidth = {.receive = 3000, .send = 4000}; }},
      {"another size of /dev/shm needs a root of its own", [](auto& r) { r.limits.shm_bytes = 1 << 20; },
       [](auto& p) {
         p.shm_bytes = 1 << 20;
         p.takes_ready_root = false;
       }},
      {"the default size of /dev/shm", [](auto& r) { r.limits.shm_bytes = 64 << 20; }, [](auto&) {}},
      {"ulimits", [](auto& r) { r.ulimits = {{"nofile", 100}}; },
       [](auto& p) { p.ulimits = {{RLIMIT_CORE, {1, 1}}, {RLIMIT_NOFILE, {100, 100}}}; }},
      {"no core files are as always", [](auto& r) { r.ulimits = {{"core", 0}}; }, [](auto&) {}},
      {"volumes", [](auto& r) { r.volumes = {{.source = "/data", .target = "/data"}}; },
       [](auto& p) { p.volumes = {{.source = "/data", .target = "/data"}}; }},
      {"ports", [](auto& r) { r.ports = {{80, 8080, "tcp"}}; }, [](auto& p) { p.ports = {{80, 8080, "tcp"}}; }},
      {"no network", [](auto& r) { r.network = api::native::NetworkMode::None; },
       [](auto& p) { p.slot_mode = NetworkMode::None; }},
      {"a runtime", [](auto& r) { r.runtime = "runsc"; },
       [](auto& p) {
         p.runtime = "runsc";
         p.takes_ready_root = false;
       }},
      {"privileges",
       [](auto& r) {
         r.no_new_privileges = false;
         r.nested_user_namespaces = r.read_only_root = true;
       },
       [](auto& p) {
         p.no_new_privileges = false;
         p.nested_user_namespaces = p.read_only_root = true;
       }},
  };
  for (const auto& row : rows) {
    CreateSandbox asked = request();
    row.ask(asked);
    SandboxPlan expected = ordinary();
    row.expect(expected);
    const auto made = plan(asked);
    ASSERT_TRUE(made) << row.field << ": " << made.error().message;
    EXPECT_TRUE(*made == expected) << row.field;
  }
}

TEST(SandboxPlan, TheConfigurationDecidesWhatARequestLeavesOpen) {
  SandboxConfig config;
  config.default_pids = 7;
  config.default_shm_bytes = 1 << 20;
  config.default_disk_bytes = 1 << 30;
  config.exec_label = "exec sandbox";
  SandboxPlan expected = ordinary();
  expected.limits.pids = 7;
  expected.shm_bytes = 1 << 20;
  expected.disk_bytes = 1 << 30;
  expected.exec_label = "exec sandbox";
  EXPECT_TRUE(plan(request(), config).value() == expected);
}

TEST(SandboxPlan, BandwidthHasADefaultAndAMaximum) {
  struct {
    const char* why;
    std::uint64_t fallback, most;
    std::optional<std::uint64_t> asked;
    std::uint64_t expected;
  } rows[] = {{"no limit", 0, 0, {}, 0},
              {"the default", 5000, 0, {}, 5000},
              {"the request's own", 5000, 0, 9000, 9000},
              {"the maximum where nothing else is said", 0, 7000, {}, 7000},
              {"a default above the maximum", 9000, 7000, {}, 7000},
              {"less than the maximum", 0, 7000, 6000, 6000}};
  for (const auto& row : rows) {
    SandboxConfig config;
    config.default_bandwidth = {.receive = row.fallback, .send = row.fallback};
    config.max_bandwidth = {.receive = row.most, .send = row.most};
    CreateSandbox asked = request();
    asked.limits.network_receive_bps = asked.limits.network_send_bps = row.asked;
    const auto made = bandwidth_of(asked, config);
    ASSERT_TRUE(made) << row.why;
    EXPECT_EQ(*made, (Bandwidth{.receive = row.expected, .send = row.expected})) << row.why;
    asked.network = api::native::NetworkMode::None;
    asked.limits = {};
    EXPECT_FALSE(bandwidth_of(asked, config)->limited()) << "there is nothing to limit";
  }
}

TEST(SandboxPlan, RequestsThatCannotBeMetNameTheField) {
  using api::native::NetworkMode;
  SandboxConfig open;
  open.allow_host_network = true;
  const SandboxConfig closed;
  SandboxConfig narrow;
  narrow.max_bandwidth = {.receive = 5000, .send = 5000};
  struct {
    const char* message;
    Code code;
    const SandboxConfig& config;
    std::function<void(CreateSandbox&)> ask;
  } rows[] = {
      {"network mode host", Code::Forbidden, closed, [](auto& r) { r.network = NetworkMode::Host; }},
      {"/ports", Code::InvalidRequest, open,
       [](auto& r) {
         r.network = NetworkMode::Host;
         r.ports = {{80, 0, "tcp"}};
       }},
      {"/ports", Code::InvalidRequest, open,
       [](auto& r) {
         r.network = NetworkMode::None;
         r.ports = {{80, 0, "tcp"}};
       }},
      {"runtime runsc", Code::Unsupported, open,
       [](auto& r) {
         r.network = NetworkMode::None;
         r.runtime = "runsc";
       }},
      {"/limits/network_send_bps: 1023 is not between 1024 and", Code::InvalidRequest, open,
       [](auto& r) { r.limits.network_send_bps = 1023; }},
      {"/limits/network_receive_bps: 10000000001 is not", Code::InvalidRequest, open,
       [](auto& r) { r.limits.network_receive_bps = 10'000'000'001; }},
      {"/limits/network_receive_bps: 5001 are asked for, at most 5000 bytes per second are allowed ([network] "
       "max_receive_bps",
       Code::InvalidRequest, narrow, [](auto& r) { r.limits.network_receive_bps = 5001; }},
      {"/limits/network_send_bps: only with network mode bridge", Code::InvalidRequest, open,
       [](auto& r) {
         r.network = NetworkMode::None;
         r.limits.network_send_bps = 5000;
       }},
      {"/ulimits/fingers", Code::InvalidRequest, open, [](auto& r) { r.ulimits = {{"fingers", 10}}; }},
      {"/dns", Code::InvalidRequest, open, [](auto& r) { r.dns = {"::1"}; }},
      {"mount path", Code::InvalidRequest, open, [](auto& r) { r.volumes = {{.source = "/a", .target = "a"}}; }},
  };
  for (const auto& row : rows) {
    CreateSandbox asked = request();
    row.ask(asked);
    const auto made = plan(asked, row.config);
    ASSERT_FALSE(made) << row.message;
    EXPECT_EQ(made.error().code, row.code) << row.message;
    EXPECT_TRUE(made.error().message.starts_with(row.message)) << made.error().message;
  }
}

TEST(SandboxPlan, FactsThatAreMissingMatterOnlyToRequestsThatNeedThem) {
  HostFacts host = facts();
  host.io_device = fail(Code::Unsupported, "no disk");
  EXPECT_TRUE(plan(request(), {}, host));
  CreateSandbox asked = request();
  asked.limits.io_bytes_per_second = 1;
  EXPECT_EQ(plan(asked, {}, host).error().message, "/limits: io: no disk");
  host = facts();
  host.user = fail(Code::InvalidRequest, "user 'x' is not in the image's /etc/passwd");
  EXPECT_EQ(plan(request(), {}, host).error().code, Code::InvalidRequest);
}

TEST(SandboxPlan, TheRequestsVariablesWinButNotOverTheToken) {
  CreateSandbox asked = request();
  asked.env = {{"A", "request"}, {"EXECD_ACCESS_TOKEN", "mine"}, {"PATH", "/bin"}};
  SandboxPlan expected = ordinary();
  expected.env = {"B=image",   "HOME=/home/box", "EXECD_ENVS=/opt/opensandbox/.env",
                  "A=request", "PATH=/bin",      "EXECD_ACCESS_TOKEN=secret"};
  EXPECT_TRUE(plan(asked).value() == expected);
}

TEST(SandboxPlan, TheLaunchIsThePlanInItsSlot) {
  Slot slot;
  slot.id_base = 100'000;
  slot.address = "10.90.0.2";
  const auto launch = launch_plan(ordinary(), slot, "/state/box");
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_EQ(launch->id_base, 100'000U);
  EXPECT_EQ(std::get<LayersRoot>(launch->root).upper, "/state/box/upper");
  EXPECT_NE(launch->etc_hosts.find("10.90.0.2\t0123456789ab\n"), std::string::npos);
  slot.address = "";
  EXPECT_NE(launch_plan(ordinary(), slot, "")->etc_hosts.find("127.0.0.1\t0123456789ab\n"), std::string::npos);
}

TEST(SandboxPlan, ExecdHasTheEntrypointBehindItsOwnArguments) {
  SandboxPlan made = ordinary();
  Words argv = execd_arguments(made);
  EXPECT_EQ(Words(std::ranges::find(argv, "--"), argv.end()), (Words{"--", "/init", "--fast"}));
  made.entrypoint.clear();
  EXPECT_FALSE(has(execd_arguments(made), "--"));
}

TEST(SandboxPlan, ExecdIsToldTheReserveOfADiskThatItSees) {
  HostFacts host = facts();
  host.disk_reserve = {1000, 20};
  EXPECT_TRUE(has(execd_arguments(plan(request(), {}, host).value()), "1000,20"));
  EXPECT_TRUE(has(oci_execd_arguments(plan(request(), {}, host).value()), "1000,20"));
  EXPECT_FALSE(has(execd_arguments(ordinary()), "--disk-reserve"));
  SandboxConfig quotas;
  quotas.trees = DiskTrees(DiskMeans::ProjectQuota);
  EXPECT_TRUE(has(execd_arguments(plan(request(), quotas, host).value()), "1000,20"));
  quotas.default_disk_bytes = 1 << 30;
  EXPECT_FALSE(has(execd_arguments(plan(request(), quotas, host).value()), "--disk-reserve"));
}

TEST(SandboxPlan, WithoutInheritedDescriptorsEverythingHasAPathInside) {
  const Words argv = oci_execd_arguments(ordinary());
  EXPECT_EQ(argv.front(), "/opt/opensandbox/execd");
  EXPECT_FALSE(has(argv, "--listen-fd"));
  EXPECT_TRUE(has(argv, "44772"));
  EXPECT_TRUE(has(argv, "/init"));
}

TEST(SandboxPlan, FilesOfTheCgroupHaveAPathWhereDescriptorsAreNotInherited) {
  CgroupPlan cgroup;
  cgroup.stat_files.emplace_back("cpu.stat", UniqueFd());
  EXPECT_TRUE(has(oci_execd_arguments(ordinary(), cgroup), "cpu.stat=/opt/opensandbox/cgroup/cpu.stat"));
}

TEST(SandboxPlan, HiddenCgroupFilesAreInheritedByNumber) {
  const Words files = {"cpu.stat", "memory.current"};
  const Words argv = execd_arguments(ordinary(), files);
  EXPECT_TRUE(has(argv, "cpu.stat=/proc/self/fd/6"));
  EXPECT_TRUE(has(argv, "memory.current=/proc/self/fd/7"));
}

TEST(SandboxPlan, NoPortIsOpenedInTheHostsNetwork) {
  SandboxPlan made = ordinary();
  EXPECT_TRUE(has(execd_arguments(made), "44772"));
  made.host_network = true;
  EXPECT_FALSE(has(execd_arguments(made), "44772"));
}

TEST(SandboxPlan, AsManyGpusAsTheHostHas) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make device nodes";
  const testing::TempDir dev;
  const auto find = [&](const std::string& gpus) { return gpu_devices(gpus, dev.path().string()); };
  EXPECT_EQ(find("all").error().code, Code::Unsupported);
  EXPECT_TRUE(find("")->empty());
  for (const auto& [name, number] : {std::pair{"nvidia0", 0u}, {"nvidia1", 1u}, {"nvidiactl", 255u}}) {
    ASSERT_EQ(::mknod((dev.path() / name).c_str(), S_IFCHR | 0600, makedev(195, number)), 0);
  }
  ASSERT_TRUE(find("all"));
  EXPECT_EQ(find("all")->size(), 3u);
  EXPECT_EQ(find("1")->size(), 2u);  // one card, and what all cards share
  EXPECT_EQ(find("1")->front().name, "nvidia0");
  EXPECT_EQ(find("3").error().code, Code::Unsupported);
  for (const char* nonsense : {"0", "-1", "some", "1.5"}) {
    EXPECT_EQ(find(nonsense).error().code, Code::InvalidRequest) << nonsense;
  }
}

}  // namespace
}  // namespace osb::sandboxd
