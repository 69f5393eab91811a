#include <opensandbox/pool.h>

#include <gtest/gtest.h>

namespace opensandbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(MemoryStore, GivesTheOldestFirstAndIgnoresDuplicates) {
  const auto store = make_memory_store();
  for (const char* id : {"a", "b", "a", "c"}) ASSERT_TRUE(store->put_idle("p", id));
  ASSERT_TRUE(store->put_idle("other", "x"));
  EXPECT_EQ(*store->idle_count("p"), 3);
  ASSERT_TRUE(store->remove_idle("p", "b"));
  EXPECT_EQ(store->take_idle("p", milliseconds(0))->sandbox_id, "a");
  EXPECT_EQ(store->take_idle("p", milliseconds(0))->sandbox_id, "c");
  EXPECT_FALSE(store->take_idle("p", milliseconds(0))->sandbox_id);
}

TEST(MemoryStore, PutsShortLivedOnesAside) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set_idle_ttl("p", hours(1)));
  ASSERT_TRUE(store->put_idle("p", "short"));
  ASSERT_TRUE(store->set_idle_ttl("p", hours(3)));
  ASSERT_TRUE(store->put_idle("p", "long"));
  const auto taken = store->take_idle("p", hours(2));
  EXPECT_EQ(taken->sandbox_id, "long");
  EXPECT_EQ(taken->discarded, std::vector<std::string>{"short"});

  ASSERT_TRUE(store->set_idle_ttl("p", milliseconds(0)));
  ASSERT_TRUE(store->put_idle("p", "expired"));
  ASSERT_TRUE(store->set_idle_ttl("p", hours(1)));
  ASSERT_TRUE(store->put_idle("p", "short"));
  EXPECT_EQ(*store->reap_idle("p", hours(2)), std::vector<std::string>{"short"});
  EXPECT_EQ(*store->idle_count("p"), 0);
}

TEST(MemoryStore, HasOneOwnerAndSharesNothing) {
  const auto store = make_memory_store();
  EXPECT_TRUE(*store->acquire_lock("p", "me", hours(1)));
  EXPECT_TRUE(*store->renew_lock("p", "me", hours(1)));
  ASSERT_TRUE(store->set_max_idle("p", 3));
  EXPECT_FALSE(*store->max_idle("p"));
}

}  // namespace
}  // namespace opensandbox
