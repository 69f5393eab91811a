#pragma once

#include <memory>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kernel/copy_tree_fixture.h"
#include "kernel/namespace.h"
#include "sandboxd/volume/volume_store.h"
#include "support/temp_dir.h"

namespace osb::sandboxd::testing {

inline constexpr std::uint32_t kIdBase = 1'500'000'000;

// The user namespace of a sandbox, and a host whose volumes are in <dir>/state.
class VolumeFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: mounts and user namespaces";
    osb::testing::use_private_mounts();
    auto made = kernel::make_user_namespace(kIdBase, 65536);
    ASSERT_TRUE(made) << made.error().message;
    userns_ = std::move(*made);
    config_.directory = dir_ / "state/volumes";
    config_.own_directories = {dir_ / "state"};
    make_host();
  }
  // Makes the files of the host and completes the configuration.
  virtual void make_host() = 0;

  osb::testing::TempDir dir_;
  VolumeConfig config_;
  UniqueFd userns_;
  std::unique_ptr<VolumeStore> store_;
};

}  // namespace osb::sandboxd::testing
