#include "server/service/removals.h"

#include "server/service/service_parts_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::await;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RemovalsTest : public ServicePartsTest {};

TEST_F(RemovalsTest, ARemovalTakesRecordAndSandbox) {
  in_state("a", api::state::kRunning);
  alive("a");
  ASSERT_TRUE(await(io_, removals_->remove("a", Scope::all())));
  EXPECT_FALSE(store_->find("a"));
  EXPECT_THAT(backend_.alive, IsEmpty());
  EXPECT_THAT(gone_, ElementsAre("a"));
  EXPECT_FALSE(removals_->contains("a"));
  EXPECT_EQ(states_->instance("a"), nullptr);
}

TEST_F(RemovalsTest, AnUnknownOrForeignSandboxIsNotAskedFor) {
  in_state("a", api::state::kRunning);
  EXPECT_EQ(await(io_, removals_->remove("b", Scope::all())).error().reason, "FAKE::SANDBOX_NOT_FOUND");
  EXPECT_EQ(await(io_, removals_->remove("a", Scope::tenant("other"))).error().reason, "FAKE::SANDBOX_NOT_FOUND");
  EXPECT_THAT(backend_.removes, IsEmpty());
  EXPECT_TRUE(store_->find("a"));
}

TEST_F(RemovalsTest, ARefusedRemovalIsToldAndGoesOnUntilTheBackendHasNothingLeft) {
  in_state("a", api::state::kRunning);
  alive("a");
  backend_.remove_error = Error(Code::Unavailable, "busy");
  const auto refused = await(io_, removals_->remove("a", Scope::all()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "FAKE::SANDBOX_DELETE_FAILED");
  EXPECT_THAT(refused.error().message, HasSubstr("busy"));
  EXPECT_TRUE(removals_->contains("a"));
  EXPECT_THAT(states_->get("a", Scope::all()).error().message, HasSubstr("was deleted at"));
  backend_.remove_error.reset();
  presence_.note_reconciled();
  until_idle();
  EXPECT_THAT(gone_, ElementsAre("a"));
  EXPECT_THAT(backend_.alive, IsEmpty());
}

TEST_F(RemovalsTest, TwoRemovalsOfOneSandboxAreOne) {
  alive("a");
  removals_->begin("a");
  removals_->begin("a");
  until_idle();
  EXPECT_THAT(backend_.removes, ElementsAre("a"));
  EXPECT_THAT(gone_, ElementsAre("a"));
}

TEST_F(RemovalsTest, ASandboxThatIsStillBeingMadeIsRemovedAgainAfterItsCreate) {
  const auto creation = creations_.add("a");
  creation->handed = true;
  removals_->begin("a");
  io_.restart();
  while (backend_.removes.empty()) io_.run_one();
  io_.poll();
  EXPECT_THAT(gone_, IsEmpty()) << "the create may still reach the backend";
  alive("a");
  creations_.erase("a");
  creation->over.set();
  until_idle();
  EXPECT_THAT(backend_.removes, ElementsAre("a", "a"));
  EXPECT_THAT(backend_.alive, IsEmpty());
}

}  // namespace
}  // namespace osb::server::testing
