// Snapshots of 100 MB against `cp -a` of the same upper directory: bench_snapshot DIRECTORY [ROUNDS]
//
// The variants take turns in every round and medians count. For each: how long a sandbox would be frozen, and how long
// until the snapshot is safe on disk; for cp, the copy alone and with a sync after it. Copies stay until the end and
// leave the page cache after each turn: deleting is slow where deleted blocks are discarded, and memory that was never
// touched before is slow in a virtual machine; both would be measured with the next turn. A line of JSON for each file
// system and shape; file systems whose mkfs is missing are left out.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/id.h"
#include "base/unique_fd.h"
#include "sandboxd/snapshot/snapshot_store.h"

namespace {

namespace fs = std::filesystem;
using namespace osb;

struct Shape {
  const char* name;
  int files;
  std::size_t size;
};
constexpr Shape kShapes[] = {
    {"10 x 10 MiB", 10, 10 << 20}, {"1600 x 64 KiB", 1600, 64 << 10}, {"6400 x 16 KiB", 6400, 16 << 10}};

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "snapshot_bench: {}\n", why);
  std::exit(1);
}

template <typename F>
double milliseconds(F fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) die(command + " failed");
}

void fill(const fs::path& upper, const Shape& shape) {
  std::string data(shape.size, 'x');
  for (std::size_t at = 0; at < data.size(); at += 64) data[at] = static_cast<char>(std::rand());
  for (int n = 0; n < shape.files; ++n) {
    const fs::path directory = upper / fmt::format("d{}", n % 50);
    fs::create_directories(directory);
    std::ofstream(directory / fmt::format("f{}", n)) << data;
  }
}

void sync_file_system(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::syncfs(fd.get()) < 0) die("syncfs");
}

void forget(const fs::path& tree) {
  sync_file_system(tree);
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

void compare(const char* where, const fs::path& directory, int rounds) {
  const sandboxd::FreezeHooks hooks{[] { return Result<void>(); }, [] { return Result<void>(); }};
  for (const Shape& shape : kShapes) {
    const fs::path place = directory / fmt::format("bench-{}", ::getpid());
    fs::create_directories(place / "upper");
    fill(place / "upper", shape);
    sync_file_system(place);
    auto store = sandboxd::SnapshotStore::open(place / "snapshots");
    if (!store) die(store.error().message);
    const UniqueFd upper(::open((place / "upper").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::vector<double> cp, cp_sync, frozen, total;
    for (int round = 0; round <= rounds; ++round) {  // the first one warms up
      const fs::path copy = place / fmt::format("cp{}", round);
      const double copied =
          milliseconds([&] { run(fmt::format("cp -a {} {}", (place / "upper").string(), copy.string())); });
      const double synced = milliseconds([&] { sync_file_system(place); });
      forget(copy);
      sandboxd::CaptureTimes times;
      const std::string id = new_uuid();
      const auto captured = (*store)->capture(id, {}, upper.get(), hooks, &times);
      if (!captured) die(captured.error().message);
      forget((*store)->layers(id)->front());
      if (round == 0) continue;
      cp.push_back(copied);
      cp_sync.push_back(copied + synced);
      frozen.push_back(times.frozen_ms);
      total.push_back(times.total_ms);
    }
    fmt::print(R"({{"where": "{}", "shape": "{}", "cp_ms": {:.2f}, "cp_synced_ms": {:.2f}, )"
               R"("frozen_ms": {:.2f}, "total_ms": {:.2f}}})"
               "\n",
               where, shape.name, median(cp), median(cp_sync), median(frozen), median(total));
    std::fflush(stdout);
    store->reset();
    fs::remove_all(place);
  }
}

// A file system with reflinks in memory, mounted for this process alone.
void compare_reflinks(const char* type, const fs::path& directory, int rounds) {
  if (std::system(fmt::format("command -v mkfs.{} >/dev/null", type).c_str()) != 0) return;
  if (::unshare(CLONE_NEWNS) < 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) die("unshare mounts");
  const fs::path place = directory / fmt::format("reflink-{}", ::getpid());
  fs::create_directories(place);
  if (::mount("none", place.c_str(), "tmpfs", 0, "size=5g") < 0) die("mount tmpfs");
  fs::create_directories(place / "mounted");
  std::ofstream(place / "image").close();
  fs::resize_file(place / "image", std::uintmax_t{4} << 30);
  run(fmt::format("mkfs.{} -q {} >/dev/null", type, (place / "image").string()));
  run(fmt::format("mount -o loop {} {}", (place / "image").string(), (place / "mounted").string()));
  compare(type, place / "mounted", rounds);
  ::umount2((place / "mounted").c_str(), MNT_DETACH);
  ::umount2(place.c_str(), MNT_DETACH);
  fs::remove_all(place);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || ::geteuid() != 0) die("as root: bench_snapshot DIRECTORY [ROUNDS]");
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 7;
  compare("here", argv[1], rounds);
  for (const char* type : {"btrfs", "xfs"}) {
    const pid_t child = ::fork();  // its mounts go with it
    if (child == 0) {
      compare_reflinks(type, argv[1], rounds);
      std::exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) die(fmt::format("{} failed", type));
  }
  return 0;
}
