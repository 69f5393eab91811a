#include "kubernetes/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/task_group.h"
#include "kubernetes/testing/cluster_fixture.h"
#include "kubernetes/testing/status_answer.h"
#include "kubernetes/testing/test_time.h"

namespace osb::kubernetes {
namespace {

using namespace std::chrono_literals;

class LeaderElectionTest : public testing::ClusterFixture {
 protected:
  LeaderElectionTest() : time(io.get_executor()), changed(io.get_executor()) {}
  ~LeaderElectionTest() override {
    for (auto& [name, each] : candidates) run(each.tasks->close());
  }

  struct Candidate {
    std::unique_ptr<Client> client;
    std::unique_ptr<LeaderElection> election;
    std::unique_ptr<Event> finish;
    bool working = false;
    bool over = false;
    std::optional<Result<void>> outcome;
    std::unique_ptr<TaskGroup> tasks;
  };

  Candidate& candidate(const std::string& name) {
    Candidate& made = candidates[name];
    ClientOptions options;
    options.clock = &time.clock();
    options.sleep = time.sleep();
    made.client = open(std::move(options));
    made.election =
        std::make_unique<LeaderElection>(*made.client, LeaseOptions{.ns = ns, .name = "leader", .identity = name});
    made.finish = std::make_unique<Event>(io.get_executor());
    made.tasks = std::make_unique<TaskGroup>(io.get_executor());
    made.tasks->spawn(name, drive(made));
    return made;
  }
  net::awaitable<void> drive(Candidate& each) {
    each.outcome = co_await each.election->lead([this, &each] { return work(each); });
    each.over = true;
    changed.notify_all();
  }
  net::awaitable<void> work(Candidate& each) {
    each.working = true;
    changed.notify_all();
    struct Ended {
      ~Ended() { each.working = false; }
      Candidate& each;
    } ended{each};
    co_await each.finish->wait();
  }
  void wait_working(Candidate& each) {
    run(changed.wait_until([&] { return each.working; }));
  }
  void wait_over(Candidate& each) {
    run(changed.wait_until([&] { return each.over; }));
  }
  LeaseRecord lease() { return LeaseRecord::parse(must(client->get({resources::kLeases, {ns, "leader"}}))); }
  // Until the lease has another version than the one given.
  void wait_renewed(const std::string& version) {
    const auto watch = must(client->watch(resources::kLeases, ns, {.version = version}));
    for (;;) {
      const auto event = must(watch->next());
      if (event && event->type != WatchEvent::Type::Bookmark) return;
    }
  }

  testing::TestTime time;
  Notifier changed;
  std::map<std::string, Candidate> candidates;
};

TEST_F(LeaderElectionTest, TheFirstLeadsAndTheNextFollowsAtOnceWhenItEnds) {
  Candidate& first = candidate("first");
  wait_working(first);
  EXPECT_TRUE(first.election->leads());
  EXPECT_EQ(lease().holder, "first");
  EXPECT_EQ(lease().duration, 15s);
  Candidate& second = candidate("second");
  run(time.wait_alarm(15s));
  EXPECT_FALSE(second.working);
  first.finish->set();
  wait_over(first);
  EXPECT_TRUE(*first.outcome);
  wait_working(second);
  EXPECT_EQ(lease().holder, "second");
  EXPECT_EQ(lease().transitions, 1);
  second.finish->set();
  wait_over(second);
}

TEST_F(LeaderElectionTest, ALeaderRenewsAndKeepsTheOthersWaiting) {
  Candidate& first = candidate("first");
  wait_working(first);
  Candidate& second = candidate("second");
  run(time.wait_alarm(15s));
  for (int i = 0; i < 10; ++i) {
    const std::string version = lease().version;
    time.advance(2s);
    wait_renewed(version);
    run(time.wait_alarm(2s));
  }
  EXPECT_TRUE(first.working);
  EXPECT_FALSE(second.working) << "20 seconds are longer than a lease, but it was renewed";
  first.finish->set();
  wait_working(second);
  second.finish->set();
  wait_over(second);
}

TEST_F(LeaderElectionTest, ALeaderThatCannotRenewStopsBeforeAnotherBegins) {
  OSB_ONLY_IN_PROCESS();
  Candidate& first = candidate("first");
  wait_working(first);
  run(time.wait_alarm(2s));
  server->intercept = [](const http::Request& request) -> std::optional<http::Response> {
    if (request.method != "PUT") return std::nullopt;
    return testing::status_answer(500, "InternalError", "etcd is away");
  };
  for (int seconds = 2; seconds < 10; seconds += 2) {
    time.advance(2s);
    run(time.wait_alarm(2s));
    EXPECT_TRUE(first.working) << seconds;
  }
  time.advance(2s);
  wait_over(first);
  EXPECT_FALSE(first.working);
  EXPECT_EQ(first.outcome->error().code, Code::Unavailable);
}

TEST_F(LeaderElectionTest, ASilentLeaderIsReplacedWhenItsTimeIsOver) {
  must(client->create(resources::kLeases, ns,
                      {{"metadata", {{"name", "leader"}}},
                       {"spec", {{"holderIdentity", "dead"}, {"leaseDurationSeconds", 15}, {"leaseTransitions", 4}}}}));
  Candidate& next = candidate("next");
  run(time.wait_alarm(15s));
  EXPECT_EQ(next.election->holder(), "dead");
  time.advance(14s);
  EXPECT_FALSE(next.working);
  time.advance(1s);
  wait_working(next);
  EXPECT_EQ(lease().transitions, 5);
  next.finish->set();
  wait_over(next);
}

TEST_F(LeaderElectionTest, ALeaseTakenByAnotherEndsTheWork) {
  Candidate& first = candidate("first");
  wait_working(first);
  run(time.wait_alarm(2s));
  must(
      client->patch({resources::kLeases, {ns, "leader"}}, PatchType::Merge, {{"spec", {{"holderIdentity", "thief"}}}}));
  time.advance(2s);
  wait_over(first);
  EXPECT_FALSE(first.working);
  EXPECT_EQ(first.outcome->error().code, Code::Unavailable);
  EXPECT_EQ(lease().holder, "thief") << "a lost lease is not released";
}

TEST_F(LeaderElectionTest, ACancelledLeaderGivesTheLeaseUp) {
  Candidate& first = candidate("first");
  wait_working(first);
  run(first.tasks->close());
  EXPECT_FALSE(first.working);
  EXPECT_EQ(lease().holder, "");
}

}  // namespace
}  // namespace osb::kubernetes
