#include "kubernetes/informer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/task_group.h"
#include "kubernetes/testing/cluster_fixture.h"
#include "kubernetes/testing/status_answer.h"

namespace osb::kubernetes {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

class InformerTest : public testing::ClusterFixture {
 protected:
  InformerTest() : changed(io.get_executor()), tasks(io.get_executor()) {
    ClientOptions options;
    options.clock = &clock;
    // Pauses take no time but a turn of the loop; the test counts them.
    if (server) {
      options.sleep = [this](std::chrono::nanoseconds time) -> net::awaitable<bool> {
        pauses.push_back(time);
        co_return co_await sleep_for(0ns);
      };
    }
    watcher = open(std::move(options));
    Informer::Options wanted{.resource = resources::kConfigMaps, .ns = ns, .labels = "in=yes"};
    wanted.page = 2;
    wanted.trim = [](json::object& object) { make_object(object, {"data"}).erase("big"); };
    informer = std::make_unique<Informer>(io.get_executor(), *watcher, std::move(wanted));
    informer->cache().on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      log.push_back(std::string(before ? "1" : "0") + (after ? "1 " : "0 ") + key_of(after ? *after : *before).name);
      changed.notify_all();
    });
  }
  ~InformerTest() override {
    run(tasks.close());
    informer.reset();
    watcher.reset();
  }
  void start() {
    tasks.spawn("informer", informer->run());
    ASSERT_TRUE(run(informer->wait_synced()));
    if (server) run(server->wait_watches(1));
  }
  json::object make(const std::string& name, json::object data = {}) {
    return make_map(name, std::move(data), {{"labels", {{"in", "yes"}}}});
  }
  void patch(const std::string& name, const std::string& value) {
    must(client->patch(map_ref(name), PatchType::Merge, {{"data", {{"k", value}}}}));
  }
  std::string value(const std::string& name) {
    const ObjectPtr found = informer->cache().get({ns, name});
    return found ? std::string(text(*found, {"data", "k"})) : "none";
  }
  void wait_for(const std::string& name, const std::string& wanted) {
    run(changed.wait_until([&] { return value(name) == wanted; }));
  }
  std::size_t lists() const {
    return static_cast<std::size_t>(std::ranges::count_if(server->requests, [](const std::string& each) {
      return each.starts_with("GET") && each.contains("configmaps?") && !each.contains("watch=true") &&
             !each.contains("continue=");
    }));
  }

  FakeClock clock;  // stands still: no watch lasts long enough to be worth another one at once
  Notifier changed;
  TaskGroup tasks;
  std::unique_ptr<Client> watcher;
  std::unique_ptr<Informer> informer;
  std::vector<std::string> log;
  std::vector<std::chrono::nanoseconds> pauses;
};

TEST_F(InformerTest, TheCacheFollowsTheCluster) {
  for (const char* name : {"a", "b", "c"}) make(name, {{"k", "1"}, {"big", "x"}});
  make_map("unselected");
  start();
  EXPECT_EQ(informer->cache().size(), 3u);
  EXPECT_EQ(text(*informer->cache().get({ns, "a"}), {"data", "big"}), "") << "trimmed";
  EXPECT_EQ(find(*informer->cache().get({ns, "a"}), {"metadata", "managedFields"}), nullptr);
  patch("a", "2");
  wait_for("a", "2");
  make("d", {{"k", "1"}});
  wait_for("d", "1");
  must(client->remove(map_ref("b")));
  wait_for("b", "none");
  EXPECT_THAT(log, Contains("10 b"));
}

TEST_F(InformerTest, OwnWritesAreSeenBeforeTheirEvents) {
  start();
  informer->observe(make("mine", {{"k", "1"}}));
  EXPECT_EQ(value("mine"), "1");
  must(client->remove(map_ref("mine")));
  wait_for("mine", "none");
}

TEST_F(InformerTest, AWatchThatTheServerEndsGoesOnWithoutAList) {
  OSB_ONLY_IN_PROCESS();
  make("a", {{"k", "1"}});
  start();
  server->end_watches();
  run(server->wait_watches(0));
  patch("a", "2");
  wait_for("a", "2");
  run(server->wait_watches(1));
  server->break_watches();
  run(server->wait_watches(0));
  patch("a", "3");
  wait_for("a", "3");
  EXPECT_EQ(lists(), 1u);
}

TEST_F(InformerTest, AnExpiredVersionCostsOneList) {
  OSB_ONLY_IN_PROCESS();
  make("a", {{"k", "1"}});
  make("gone", {{"k", "1"}});
  start();
  server->hold_events = true;
  patch("a", "2");
  must(client->remove(map_ref("gone")));
  server->compact();
  server->end_watches();
  server->release_events();
  wait_for("a", "2");
  wait_for("gone", "none");
  EXPECT_EQ(lists(), 2u);
}

TEST_F(InformerTest, ABookmarkSavesAListAfterACompaction) {
  OSB_ONLY_IN_PROCESS();
  make("a", {{"k", "1"}});
  start();
  for (int i = 0; i < 3; ++i) make_map("unselected" + std::to_string(i));
  server->send_bookmarks();
  run(server->wait_bookmarks(1));
  server->compact();
  server->end_watches();
  run(server->wait_watches(0));
  patch("a", "2");
  wait_for("a", "2");
  EXPECT_EQ(lists(), 1u);
}

TEST_F(InformerTest, ASlowServerLosesNothing) {
  OSB_ONLY_IN_PROCESS();
  make("a", {{"k", "1"}});
  start();
  server->hold_events = true;
  for (int i = 2; i < 20; ++i) patch("a", std::to_string(i));
  must(client->remove(map_ref("a")));
  make("a", {{"k", "again"}});
  server->release_events();
  wait_for("a", "again");
  EXPECT_THAT(log, Contains("10 a"));
}

TEST_F(InformerTest, AServerThatCannotBeReachedIsAskedAgainWithPauses) {
  OSB_ONLY_IN_PROCESS();
  int refusals = 5;
  server->intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    if (!request.target.contains("configmaps") || request.method != "GET" || refusals-- <= 0) return std::nullopt;
    return testing::status_answer(500, "InternalError", "etcd is away");
  };
  start();
  ASSERT_EQ(pauses.size(), 5u);
  for (std::size_t i = 1; i < pauses.size(); ++i) EXPECT_GE(pauses[i] * 2, pauses[i - 1]);
  EXPECT_GE(pauses.back(), 1600ms);
  EXPECT_EQ(informer->problem(), "");
}

TEST_F(InformerTest, AWatchThatAlwaysEndsAtOnceIsSpaced) {
  OSB_ONLY_IN_PROCESS();
  int watches = 0;
  server->intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    if (!request.target.contains("watch=true")) return std::nullopt;
    if (++watches >= 4) return std::nullopt;
    return http::text_response(200, "");
  };
  start();
  EXPECT_EQ(pauses.size(), 3u);
}

TEST_F(InformerTest, AListThatExpiresBetweenItsPagesBeginsAnew) {
  OSB_ONLY_IN_PROCESS();
  for (const char* name : {"a", "b", "c"}) make(name, {{"k", "1"}});
  bool first = true;
  server->intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    if (request.target.contains("continue=") && std::exchange(first, false)) server->compact();
    return std::nullopt;
  };
  start();
  EXPECT_EQ(informer->cache().size(), 3u);
  EXPECT_EQ(lists(), 2u);
}

}  // namespace
}  // namespace osb::kubernetes
