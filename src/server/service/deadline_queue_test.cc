#include "server/service/deadline_queue.h"

#include <gmock/gmock.h>

#include "server/store/store_fixture.h"

namespace osb::server::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DeadlineQueueTest : public StoreFixture {
 protected:
  net::io_context io_{1};
};

TEST_F(DeadlineQueueTest, TheNextMomentIsTheEarlierOfADeadlineAndTheEndOfADisplay) {
  DeadlineQueue queue(io_.get_executor(), *store_);
  EXPECT_EQ(queue.next(at(0)), std::nullopt);
  create(sandbox("a", at(0), at(100)));
  EXPECT_EQ(queue.next(at(0)), at(100));
  queue.add_ended("b", at(50));
  EXPECT_EQ(queue.next(at(0)), at(50));
  queue.add_ended("b", at(150));
  EXPECT_EQ(queue.next(at(0)), at(100)) << "the new moment replaces the old one";
}

TEST_F(DeadlineQueueTest, ADeadlineThatIsDueIsNotWaitedFor) {
  DeadlineQueue queue(io_.get_executor(), *store_);
  create(sandbox("a", at(0), at(100)));
  EXPECT_EQ(queue.next(at(100)), std::nullopt);
}

TEST_F(DeadlineQueueTest, EndedSandboxesAreTakenOnceAndInOrder) {
  DeadlineQueue queue(io_.get_executor(), *store_);
  queue.add_ended("late", at(30));
  queue.add_ended("second", at(20));
  queue.add_ended("first", at(10));
  queue.add_ended("removed", at(10));
  queue.forget_ended("removed");
  EXPECT_EQ(queue.ended(), 3u);
  EXPECT_THAT(queue.take_ended(at(9)), IsEmpty());
  EXPECT_THAT(queue.take_ended(at(20)), ElementsAre("first", "second"));
  EXPECT_THAT(queue.take_ended(at(20)), IsEmpty());
  EXPECT_EQ(queue.ended(), 1u);
}

}  // namespace
}  // namespace osb::server::testing
