// How long launch() takes, from the call until PID 1 has been exec'd, with all that a sandbox gets: layers, network
// namespace, cgroups, seccomp, files of /etc. Launches are spaced 50 ms apart: back-to-back loops hide what the kernel
// defers (RCU, cgroups). The time on CPU, of us and of the child, is printed too: it holds on a busy machine.
//
//   bench_launch [count] [host]

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "kernel/limited_cgroup.h"
#include "kernel/namespace.h"
#include "kernel/spread_directories.h"
#include "sandboxd/launch/host_skeleton.h"
#include "sandboxd/launch/launch.h"
#include "sandboxd/launch/seccomp_profile.h"
#include "sys/spawn.h"
#include "sys/text_file.h"

namespace {

using namespace osb;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBase = 6'000'000;
constexpr std::size_t kSlots = 8;

template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(EXIT_FAILURE);
}

void must(Result<void> result) {
  if (result) return;
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(EXIT_FAILURE);
}

double thread_cpu_micros() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// The CPU time of a process.
double process_cpu_micros(pid_t pid) {
  const std::string text = must(sys::read_text(fmt::format("/proc/{}/schedstat", pid)));
  return std::strtod(text.c_str(), nullptr) / 1e3;
}

void print(std::string_view what, std::vector<double> micros) {
  std::ranges::sort(micros);
  const auto at = [&](double part) {
    return micros[static_cast<std::size_t>(part * static_cast<double>(micros.size() - 1))];
  };
  fmt::print("{:14} count={} p50={:.0f} p90={:.0f} p99={:.0f} max={:.0f} us\n", what, micros.size(), at(0.5), at(0.9),
             at(0.99), micros.back());
}

struct Slot {
  UniqueFd userns, netns;
};

std::string image_in(const std::filesystem::path& state, bool host) {
  const std::string layer = (state / "layer").string();
  if (host) {
    must(sandboxd::build_host_skeleton(layer));
    return layer;
  }
  for (const char* name : {"bin", "etc", "proc", "sys", "dev", "tmp"}) {
    std::filesystem::create_directories(state / "layer" / name);
  }
  std::filesystem::copy_file("/bin/busybox", state / "layer/bin/sh");
  for (const char* name : {"hosts", "hostname", "resolv.conf"}) {
    ::close(::open((state / "layer/etc" / name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  }
  return layer;
}

void run(int count, bool host) {
  std::string state_name = (std::filesystem::temp_directory_path() / "osb-bench-XXXXXX").string();
  if (::mkdtemp(state_name.data()) == nullptr) std::exit(EXIT_FAILURE);
  const std::filesystem::path state(state_name);
  must(kernel::spread_subdirectories(state_name));
  const std::string layer = image_in(state, host);
  const auto seccomp = must(sandboxd::seccomp_program({}));
  const auto cgroups = must(kernel::LimitedCgroups::open(fmt::format("osb-bench-{}", ::getpid())));
  const UniqueFd program(::open("/bin/busybox", O_PATH | O_CLOEXEC));
  const UniqueFd log(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  std::vector<Slot> slots;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    Slot slot;
    slot.userns = must(kernel::make_user_namespace(kBase + i * 65'536, 65'536));
    slot.netns = must(kernel::make_network_namespace(slot.userns.get()));
    slots.push_back(std::move(slot));
  }

  std::vector<double> micros, cpu;
  for (int i = 0; i < count; ++i) {
    const std::string id = fmt::format("s{}", i);
    for (const char* name : {"upper", "work"}) std::filesystem::create_directories(state / id / name);
    const auto cgroup = must(cgroups.create(id, {.memory_bytes = 256 << 20, .cpu_millis = 1000, .pids = 100}));
    const auto join = must(cgroup.open_join());
    const std::size_t index = static_cast<std::size_t>(i) % kSlots;

    sandboxd::LaunchPlan plan;
    const sandboxd::LayersRoot layers{{layer}, (state / id / "upper").string(), (state / id / "work").string()};
    if (host) {
      plan.root = sandboxd::HostRoot{layers};
    } else {
      plan.root = layers;
    }
    plan.userns = slots[index].userns.get();
    plan.netns = slots[index].netns.get();
    plan.id_base = kBase + static_cast<std::uint32_t>(index) * 65'536;
    plan.cgroup.v2_directory = join.v2_directory.get();
    for (const UniqueFd& tasks : join.v1_tasks) plan.cgroup.v1_tasks.push_back(tasks.get());
    plan.cgroup.view = {{"", join.v2_directory.get()}};
    plan.hostname = id;
    plan.etc_hosts = "127.0.0.1 localhost\n";
    plan.etc_hostname = id + "\n";
    plan.etc_resolv_conf = "nameserver 192.0.2.1\n";
    plan.seccomp = seccomp;
    plan.program = program.get();
    plan.argv = {"sleep", "100"};
    plan.env = {"PATH=/bin"};
    plan.log = log.get();

    const double cpu_before = thread_cpu_micros();
    const auto begin = Clock::now();
    auto launched = must(sandboxd::launch(std::move(plan)));
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    cpu.push_back(thread_cpu_micros() - cpu_before + process_cpu_micros(launched.pid));

    must(cgroup.kill());
    (void)sys::reap({launched.pid, std::move(launched.pidfd)});
    (void)must(cgroup.wait_empty(std::chrono::seconds(5)));
    must(cgroup.remove());
    std::filesystem::remove_all(state / id);
    const timespec pause{0, 50'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  must(cgroups.remove_parent());
  std::filesystem::remove_all(state);
  print(host ? "launch host" : "launch layers", std::move(micros));
  print("  of it on CPU", std::move(cpu));
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 200;
  run(std::max(count, 1), argc > 2 && std::string_view(argv[2]) == "host");
  return EXIT_SUCCESS;
}
