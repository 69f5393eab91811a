#include <csignal>
#include <opensandbox/pool_redis.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "client/redis_connection.h"
#include "support/temp_dir.h"

namespace opensandbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// A real Redis of our own on a Unix socket.
class RedisStoreTest : public testing::Test {
 protected:
  void SetUp() override { start(); }
  void TearDown() override { stop(); }

  void start() {
    int said[2];
    ASSERT_EQ(::pipe(said), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(said[1], STDOUT_FILENO);
      ::close(said[0]);
      ::execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_.c_str(), "--save", "",
               "--appendonly", "no", "--dir", temp_.path().c_str(), nullptr);
      ::_exit(127);
    }
    ::close(said[1]);
    std::string text;
    char buffer[4096];
    while (text.find("eady to accept connections") == std::string::npos) {
      const ssize_t n = ::read(said[0], buffer, sizeof(buffer));
      ASSERT_GT(n, 0) << "redis-server did not start: " << text;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    said_ = said[0];
  }
  void stop() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::close(said_);
    child_ = -1;
  }

  std::shared_ptr<PoolStateStore> store() {
    auto made = make_redis_store({.url = "unix:" + socket_});
    EXPECT_TRUE(made);
    return *made;
  }

  osb::testing::TempDir temp_;
  const std::string socket_ = (temp_ / "redis.sock").string();
  pid_t child_ = -1;
  int said_ = -1;
};

TEST_F(RedisStoreTest, GivesTheOldestFirstAndIgnoresDuplicates) {
  const auto one = store(), other = store();
  for (const char* id : {"a", "b", "a", "c"}) ASSERT_TRUE(one->put_idle("p", id));
  ASSERT_TRUE(one->put_idle("q", "x"));
  EXPECT_EQ(*other->idle_count("p"), 3);
  ASSERT_TRUE(other->remove_idle("p", "b"));
  const auto entries = other->idle_entries("p");
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[1].sandbox_id, "c");
  EXPECT_GT((*entries)[1].expires_at, std::chrono::system_clock::now() + hours(23));
  EXPECT_EQ(other->take_idle("p", milliseconds(0))->sandbox_id, "a");
  EXPECT_EQ(one->take_idle("p", milliseconds(0))->sandbox_id, "c");
  EXPECT_FALSE(one->take_idle("p", milliseconds(0))->sandbox_id);
}

TEST_F(RedisStoreTest, PutsShortLivedOnesAside) {
  const auto redis = store();
  ASSERT_TRUE(redis->set_idle_ttl("p", hours(1)));
  ASSERT_TRUE(redis->put_idle("p", "short"));
  ASSERT_TRUE(redis->set_idle_ttl("p", hours(3)));
  ASSERT_TRUE(redis->put_idle("p", "long"));
  const auto taken = redis->take_idle("p", hours(2));
  EXPECT_EQ(taken->sandbox_id, "long");
  EXPECT_EQ(taken->discarded, std::vector<std::string>{"short"});

  ASSERT_TRUE(redis->set_idle_ttl("p", milliseconds(0)));
  ASSERT_TRUE(redis->put_idle("p", "expired"));
  ASSERT_TRUE(redis->set_idle_ttl("p", hours(1)));
  ASSERT_TRUE(redis->put_idle("p", "expired"));  // anew: what is over is no duplicate
  ASSERT_TRUE(redis->put_idle("p", "short"));
  EXPECT_EQ(redis->reap_idle("p", milliseconds(0))->size(), 0u);
  EXPECT_EQ(redis->reap_idle("p", hours(2))->size(), 2u);
  EXPECT_EQ(*redis->idle_count("p"), 0);
}

TEST_F(RedisStoreTest, HasOneLockHolder) {
  const auto redis = store();
  EXPECT_TRUE(*redis->acquire_lock("p", "a", hours(1)));
  EXPECT_TRUE(*redis->acquire_lock("p", "a", hours(1)));
  EXPECT_FALSE(*redis->acquire_lock("p", "b", hours(1)));
  EXPECT_FALSE(*redis->renew_lock("p", "b", hours(1)));
  EXPECT_TRUE(*redis->renew_lock("p", "a", hours(1)));
  ASSERT_TRUE(redis->release_lock("p", "b"));
  EXPECT_FALSE(*redis->acquire_lock("p", "b", hours(1)));
  ASSERT_TRUE(redis->release_lock("p", "a"));
  EXPECT_TRUE(*redis->acquire_lock("p", "b", hours(1)));
}

TEST_F(RedisStoreTest, UsesTheKeysThatOtherSdksUse) {
  const auto redis = store();
  ASSERT_TRUE(redis->set_max_idle("my pool?", 5));
  ASSERT_TRUE(redis->set_idle_ttl("my pool?", milliseconds(120000)));
  ASSERT_TRUE(redis->put_idle("my pool?", "s1"));
  ASSERT_TRUE(*redis->acquire_lock("my pool?", "owner", hours(1)));
  EXPECT_EQ(*redis->max_idle("my pool?"), 5);
  EXPECT_FALSE(*redis->max_idle("another"));
  RedisConnection raw(*osb::redis::parse_address("unix:" + socket_), milliseconds(5000));
  const std::string base = "opensandbox:pool:{bXkgcG9vbD8}:";
  EXPECT_EQ(raw.call({"GET", base + "maxIdle"})->text, "5");
  EXPECT_EQ(raw.call({"GET", base + "idleTtlMillis"})->text, "120000");
  EXPECT_EQ(raw.call({"GET", base + "lock"})->text, "owner");
  EXPECT_EQ(raw.call({"LRANGE", base + "idle:list", "0", "-1"})->items.at(0).text, "s1");
  const std::string expires = raw.call({"HGET", base + "idle:expires", "s1"})->text;
  EXPECT_EQ(expires.size(), 13u);
  EXPECT_EQ(expires.find_first_not_of("0123456789"), std::string::npos);
}

TEST_F(RedisStoreTest, SaysSoWhenRedisIsGoneAndComesBackWithIt) {
  const auto redis = store();
  ASSERT_TRUE(redis->put_idle("p", "a"));
  stop();
  for (int i = 0; i < 2; ++i) {
    const auto lost = redis->idle_count("p");
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::Pool);
    EXPECT_EQ(lost.error().code, "POOL_STATE_STORE_UNAVAILABLE");
  }
  start();
  EXPECT_EQ(redis->idle_count("p").value_or(-1), 0);
  RedisConnection raw(*osb::redis::parse_address("unix:" + socket_), milliseconds(5000));
  EXPECT_FALSE(raw.call({"NO-SUCH-COMMAND"}));
  EXPECT_EQ(raw.call({"PING"})->text, "PONG");
}

}  // namespace
}  // namespace opensandbox
