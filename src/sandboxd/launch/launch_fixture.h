#pragma once

#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/namespace.h"
#include "sandboxd/launch/launch.h"
#include "sandboxd/volume/volume_mount.h"
#include "support/temp_dir.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

struct Ran {
  std::string output;
  sys::ExitStatus status;
};

// Launches busybox (static) in a root of one small layer.
class LaunchTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBase = 3'000'000;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    std::filesystem::permissions(dir_.path(), std::filesystem::perms::owner_all);
    for (const char* name : {"layer/bin", "layer/etc", "layer/tmp", "upper", "work"}) {
      std::filesystem::create_directories(dir_ / name);
    }
    std::filesystem::permissions(dir_ / "layer/tmp", static_cast<std::filesystem::perms>(01777));
    std::filesystem::copy_file("/bin/busybox", dir_ / "layer/bin/busybox");
    for (const char* name :
         {"sh", "cat",  "ls",       "id",    "mount", "touch",   "stat", "grep", "hostname", "ln",    "mkdir",
          "rm", "echo", "readlink", "chown", "wc",    "unshare", "env",  "pwd",  "dd",       "sleep", "chmod"}) {
      std::filesystem::create_symlink("busybox", dir_ / "layer/bin" / name);
    }
    auto userns = kernel::make_user_namespace(kBase, 65'536);
    ASSERT_TRUE(userns) << userns.error().message;
    userns_ = std::move(*userns);
    auto netns = kernel::make_network_namespace(userns_.get());
    ASSERT_TRUE(netns) << netns.error().message;
    netns_ = std::move(*netns);
    program_ = UniqueFd(::open("/bin/busybox", O_PATH | O_CLOEXEC));
  }

  LaunchPlan plan(const std::string& script) {
    LaunchPlan plan;
    plan.root = LayersRoot{{(dir_ / "layer").string()}, (dir_ / "upper").string(), (dir_ / "work").string()};
    plan.userns = userns_.get();
    plan.id_base = kBase;
    plan.netns = netns_.get();
    plan.hostname = "box";
    plan.program = program_.get();
    plan.argv = {"sh", "-c", script};
    plan.env = {"PATH=/bin"};
    return plan;
  }

  PreparedMount tmpfs(const std::string& target, std::uint64_t bytes = 1 << 20) {
    auto made = make_tmpfs(bytes, kBase, false);
    EXPECT_TRUE(made) << made.error().message;
    return {.mount = std::move(*made), .target = target};
  }

  // Runs to the end and collects the output.
  Result<Ran> run(LaunchPlan plan) {
    auto log = sys::make_pipe();
    if (!log) return Failure(log.error());
    plan.log = log->write.get();
    auto launched = launch(std::move(plan));
    log->write.reset();
    if (!launched) return Failure(launched.error());
    Ran ran;
    char buffer[4096];
    for (ssize_t got; (got = ::read(log->read.get(), buffer, sizeof buffer)) > 0;) {
      ran.output.append(buffer, static_cast<std::size_t>(got));
    }
    auto status = sys::reap({launched->pid, std::move(launched->pidfd)});
    if (!status) return Failure(status.error());
    ran.status = *status;
    return ran;
  }

  std::string output_of(LaunchPlan plan) {
    auto ran = run(std::move(plan));
    EXPECT_TRUE(ran) << ran.error().message;
    return ran ? ran->output : "";
  }
  std::string output_of(const std::string& script) { return output_of(plan(script)); }

  struct stat on_disk(const std::string& name) {
    struct stat st{};
    EXPECT_EQ(::lstat((dir_ / name).c_str(), &st), 0) << name;
    return st;
  }

  testing::TempDir dir_;
  UniqueFd userns_, netns_, program_;
};

}  // namespace osb::sandboxd
