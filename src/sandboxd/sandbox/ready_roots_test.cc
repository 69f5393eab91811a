#include "sandboxd/sandbox/ready_roots.h"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "sandboxd/network/network_fixture.h"
#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using namespace osb::sandboxd::testing;

// A state directory with one layer, and a pool of slots that is full.
struct Ground {
  Ground() {
    for (const char* name : {"trash", "sandboxes", "layer/etc"}) fs::create_directories(dir / name);
    fs::permissions(dir.path(), fs::perms::owner_all);
    world.start();
    world.pool->wait_until_idle();
    directories = must(ReadyDirectories::open(dir.path().string()));
    roots = std::make_unique<ReadyRoots>(*world.pool, *directories, 1 << 20, std::vector<std::string>{});
  }
  RootKind kind() const { return must(RootKind::of({(dir / "layer").string()}, false, NetworkMode::Bridge)); }
  // refill() leaves the pool's last ready slot alone, so the pool's own thread has to replace the slots that were
  // taken.
  void prepare() {
    world.pool->wait_until_idle();
    roots->want(kind());
    roots->refill();
  }
  unsigned taken() const { return world.pool->counts().taken; }
  long waiting() const { return std::distance(fs::directory_iterator(dir / "ready"), {}); }

  osb::testing::TempDir dir;
  World world;
  std::unique_ptr<ReadyDirectories> directories;
  std::unique_ptr<ReadyRoots> roots;
};

TEST(ReadyRoots, OneWaitsForTheKindThatWasWantedLast) {
  in_own_network([] {
    Ground ground;
    EXPECT_FALSE(ground.roots->take(ground.kind())) << "not wanted yet";
    ground.prepare();
    EXPECT_EQ(ground.taken(), 1U);
    auto root = ground.roots->take(ground.kind());
    ASSERT_TRUE(root);
    EXPECT_TRUE(root->stage.mounts);
    EXPECT_TRUE(root->stage.ipc);
    const std::string home = (ground.dir / "sandboxes/a").string();
    ASSERT_TRUE(ground.directories->give_name(root->directory, home));
    EXPECT_TRUE(fs::exists(fs::path(home) / "work" / "work")) << "the overlay stands on it";
    EXPECT_FALSE(ground.roots->take(ground.kind())) << "it is gone";
  });
}

TEST(ReadyRoots, ALayerThatHasComeBackIsAnother) {
  in_own_network([] {
    Ground ground;
    ground.prepare();
    fs::rename(ground.dir / "layer", ground.dir / "old");
    fs::create_directories(ground.dir / "layer");
    EXPECT_FALSE(ground.roots->take(ground.kind()));
    auto other = must(RootKind::of({(ground.dir / "old").string()}, false, NetworkMode::Bridge));
    EXPECT_FALSE(ground.roots->take(other));
    ground.prepare();
    EXPECT_TRUE(ground.roots->take(ground.kind()));
  });
}

TEST(ReadyRoots, ADroppedRootGivesItsSlotAndDirectoryBack) {
  in_own_network([] {
    Ground ground;
    ground.prepare();
    const auto network = must(RootKind::of({(ground.dir / "layer").string()}, false, NetworkMode::None));
    EXPECT_FALSE(ground.roots->take(network));
    EXPECT_TRUE(ground.roots->drop());
    EXPECT_EQ(ground.taken(), 0U);
    EXPECT_EQ(ground.waiting(), 0);
    EXPECT_FALSE(ground.roots->drop());
  });
}

// A create that needs the last slot is told to try again while a root is being made, or finds the slot.
TEST(ReadyRoots, ASlotInTheMakingIsGivenBackToo) {
  in_own_network([] {
    Ground ground;
    for (int turn = 0; turn < 20; ++turn) {
      ground.roots->want(ground.kind());
      std::jthread maker([&] { ground.roots->refill(); });
      while (ground.taken() == 0) std::this_thread::yield();
      EXPECT_TRUE(ground.roots->drop());
      EXPECT_EQ(ground.taken(), 0U);
      maker.join();
      ground.world.pool->wait_until_idle();
    }
  });
}

TEST(ReadyRoots, OnesThatCannotBeMadeAreNotMissed) {
  in_own_network([] {
    Ground ground;
    RootKind kind = ground.kind();
    kind.layers.front().path += "/nowhere";
    ground.roots->want(kind);
    ground.roots->refill();
    EXPECT_FALSE(ground.roots->take(kind));
    EXPECT_EQ(ground.taken(), 0U);
    EXPECT_EQ(ground.waiting(), 0);
  });
}

}  // namespace
}  // namespace osb::sandboxd
