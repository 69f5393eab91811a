#include "image/layer_store.h"

#include <atomic>
#include <csignal>
#include <fstream>
#include <latch>
#include <sys/wait.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/layer_fixture.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

using namespace image::testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class LayerStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners";
    open();
  }
  void open(LayerStoreOptions options = {}) {
    store_.reset();
    auto store = LayerStore::open(path_, std::move(options));
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }

  static std::string layer(const std::string& text) { return Tar().file("etc/" + text, text).bytes(); }
  Result<LayerStore::Lease> ensure(const std::string& bytes) {
    return store_->ensure(Digest::of(bytes), [&] { return Result<ByteSource>(from_memory(gzip(bytes))); });
  }
  static std::size_t count(const fs::path& path) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
  }
  static ImageRecord record(const std::string& name, std::vector<Digest> layers) {
    return {Reference::parse(name)->to_string(), Digest::of(name), "{\"a\":\"\\u00e4\"}", std::move(layers), 77};
  }

  osb::testing::TempDir dir_;
  const fs::path path_ = dir_ / "store";
  std::unique_ptr<LayerStore> store_;
};

TEST_F(LayerStoreTest, ALayerIsUnpackedOnceAndFoundAgain) {
  const std::string a = layer("a");
  EXPECT_FALSE(store_->find(Digest::of(a)));
  {
    const auto lease = ensure(a);
    ASSERT_TRUE(lease) << lease.error().message;
    EXPECT_TRUE(fs::exists(lease->root() / "etc/a"));
    EXPECT_GT(lease->bytes(), 0u);
  }
  const auto again =
      store_->ensure(Digest::of(a), [] { return Result<ByteSource>(fail(Code::Internal, "asked again")); });
  EXPECT_TRUE(again);
  open();
  const auto found = store_->find(Digest::of(a));
  ASSERT_TRUE(found);
  EXPECT_TRUE(fs::exists(found->root() / "etc/a"));
  EXPECT_EQ(count(path_ / "tmp"), 0u);
}

TEST_F(LayerStoreTest, ManyCallersOfOneLayerShareOneUnpacking) {
  const std::string a = layer("a");
  std::atomic<int> opened = 0, good = 0;
  std::latch start(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const auto lease = store_->ensure(Digest::of(a), [&] {
        ++opened;
        return Result<ByteSource>(from_memory(a, 100));
      });
      good += lease.has_value();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(good, 8);
}

TEST_F(LayerStoreTest, AFailureLeavesNothingAndTheNextCallerTries) {
  const std::string a = layer("a");
  const Digest id = Digest::of(a);
  for (const std::string& bytes : {std::string("no tar"), a.substr(0, 700), layer("b"), gzip(a).substr(0, 50)}) {
    const auto got = store_->ensure(id, [&] { return Result<ByteSource>(from_memory(bytes)); });
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::InvalidRequest);
    EXPECT_THAT(got.error().message, HasSubstr(id.to_string()));
  }
  EXPECT_FALSE(store_->ensure(id, [] { return Result<ByteSource>(fail(Code::Unavailable, "offline")); }));
  EXPECT_FALSE(store_->find(id));
  EXPECT_EQ(count(path_ / "tmp") + count(path_ / "layers"), 0u);
  EXPECT_TRUE(ensure(a));
}

TEST_F(LayerStoreTest, AKilledUnpackingIsInvisibleAndClearedAway) {
  store_.reset();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const std::string a = layer("a");
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = LayerStore::open(path_);
    if (!store) ::_exit(1);
    // Half of the layer, then a word to the parent, then nothing more.
    (void)(*store)->ensure(Digest::of(a), [&]() -> Result<ByteSource> {
      return [&, at = 0](std::span<char> out) mutable -> Result<std::size_t> {
        if (at++ == 0) return a.copy(out.data(), 1024);
        (void)!::write(ready[1], "x", 1);
        for (;;) ::pause();
      };
    });
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(count(path_ / "tmp"), 1u);
  EXPECT_EQ(LayerStore::open(path_).error().code, Code::Conflict);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
  open();
  EXPECT_FALSE(store_->find(Digest::of(a)));
  EXPECT_EQ(count(path_ / "tmp") + count(path_ / "layers"), 0u);
}

TEST_F(LayerStoreTest, ImagesAreRememberedListedAndRemoved) {
  const std::string a = layer("a"), b = layer("b");
  ASSERT_TRUE(ensure(a) && ensure(b));
  EXPECT_EQ(store_->record(record("x", {Digest::of("missing")})).error().code, Code::NotFound);
  ASSERT_TRUE(store_->record(record("x:2", {Digest::of(a)})));
  ASSERT_TRUE(store_->record(record("x:1", {Digest::of(a)})));
  ASSERT_TRUE(store_->record(record("x:1", {Digest::of(a), Digest::of(b)})));  // moved
  ImageRecord unnormalised = record("y", {});
  unnormalised.name = "y";
  EXPECT_FALSE(store_->record(unnormalised));
  open();
  ASSERT_EQ(store_->images().size(), 2u);
  EXPECT_EQ(store_->images()[0].name, "docker.io/library/x:1");
  const auto got = store_->image(*Reference::parse("x:1"));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->manifest, Digest::of("x:1"));
  EXPECT_EQ(got->config, "{\"a\":\"\\u00e4\"}");
  EXPECT_EQ(got->created, 77);
  EXPECT_EQ(got->diff_ids, (std::vector{Digest::of(a), Digest::of(b)}));
  ASSERT_TRUE(store_->remove(*Reference::parse("x:1")));
  EXPECT_EQ(store_->remove(*Reference::parse("x:1")).error().code, Code::NotFound);
  open();
  EXPECT_EQ(store_->image(*Reference::parse("x:1")).error().code, Code::NotFound);
  EXPECT_EQ(store_->images().size(), 1u);
}

TEST_F(LayerStoreTest, OnlyUnusedLayersAreCollectedOldestFirst) {
  const std::string image = layer("image"), leased = layer("leased"), used = layer("used"), old = layer("old"),
                    fresh = layer("fresh");
  const auto lease = ensure(leased);
  for (const std::string& bytes : {image, old, used, fresh}) ASSERT_TRUE(ensure(bytes));
  ASSERT_TRUE(store_->record(record("x", {Digest::of(image)})));
  const std::set in_use = {Digest::of(used)};
  const auto before = store_->usage(in_use);
  EXPECT_EQ(before.layers, 5u);
  EXPECT_EQ(before.unused_layers, 2u);
  EXPECT_EQ(before.unused_bytes, before.bytes / 5 * 2);
  EXPECT_EQ(store_->collect(in_use, before.bytes)->layers, 0u);
  const auto one = store_->collect(in_use, before.bytes - 1);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->layers, 1u);
  EXPECT_FALSE(store_->find(Digest::of(old)));
  EXPECT_TRUE(store_->find(Digest::of(fresh)));
  EXPECT_EQ(store_->collect(in_use)->layers, 1u);
  for (const std::string& bytes : {image, leased, used}) EXPECT_TRUE(store_->find(Digest::of(bytes)));
  EXPECT_EQ(store_->collect({})->layers, 1u);
  EXPECT_FALSE(store_->find(Digest::of(used)));
  EXPECT_EQ(count(path_ / "layers"), 2u);
  EXPECT_EQ(count(path_ / "tmp"), 0u);
  EXPECT_TRUE(ensure(old));  // and comes back
}

TEST_F(LayerStoreTest, ALayerCanBeAddedWithoutKnowingItsId) {
  const std::string a = layer("a");
  const auto first = store_->add(from_memory(zstd(a)));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->diff_id(), Digest::of(a));
  const auto second = store_->add(from_memory(a));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->root(), first->root());
  EXPECT_EQ(count(path_ / "layers"), 1u);
}

TEST_F(LayerStoreTest, ACollectionRightAfterALayerAppearsLeavesItToItsMaker) {
  int collections = 0;
  open({.after_step = [&](std::string_view step) {
    if (step != "layer published") return;
    ++collections;
    EXPECT_EQ(store_->collect({})->layers, 0u);
  }});
  const std::string a = layer("a"), b = layer("b");
  const auto ensured = ensure(a);
  ASSERT_TRUE(ensured) << ensured.error().message;
  const auto added = store_->add(from_memory(b));
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ(collections, 2);
  EXPECT_TRUE(fs::exists(ensured->root() / "etc/a"));
  EXPECT_TRUE(fs::exists(added->root() / "etc/b"));
}

TEST_F(LayerStoreTest, AnExceptionWhileALayerIsMadeLeavesNoWaiter) {
  bool broken = true;
  open({.after_step = [&](std::string_view) {
    if (broken) throw std::runtime_error("no memory");
  }});
  const std::string a = layer("a"), b = layer("b");
  EXPECT_THROW((void)ensure(a), std::runtime_error);
  EXPECT_THROW((void)store_->add(from_memory(b)), std::runtime_error);
  broken = false;
  EXPECT_TRUE(ensure(a));
  EXPECT_TRUE(store_->add(from_memory(b)));
  EXPECT_EQ(count(path_ / "tmp"), 0u);
}

TEST_F(LayerStoreTest, ALeaseMayOutliveTheStore) {
  auto lease = ensure(layer("a"));
  ASSERT_TRUE(lease);
  store_.reset();
  EXPECT_TRUE(fs::exists(lease->root()));
  EXPECT_TRUE(LayerStore::open(path_));
}

}  // namespace
}  // namespace osb::image
