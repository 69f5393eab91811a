#include "server/service/adoption.h"

#include "runtime/labels.h"
#include "server/service/service_parts_fixture.h"

namespace osb::server::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AdoptionTest : public ServicePartsTest {
 protected:
  // Told by the backend: a sandbox with our labels and no record.
  runtime::Instance& marked(const std::string& id, std::optional<Timestamp> expires_at = {}) {
    api::CreateSandbox create;
    create.metadata = api::StringMap{{"name", "found"}};
    return alive(id, runtime::make_labels(id, create, expires_at));
  }
  bool consider(const std::string& id) {
    const bool taken = adoption_->consider(backend_.alive.at(id));
    until_idle();
    return taken;
  }
  void SetUp() override {
    ServicePartsTest::SetUp();
    adoption_.emplace(*context_, *states_, *removals_);
  }

  std::optional<Adoption> adoption_;
};

TEST_F(AdoptionTest, ASandboxWithOurMarkGetsARecordFromItsLabels) {
  const Timestamp deadline = context_->time.now() + std::chrono::seconds(60);
  runtime::Instance& instance = marked("a", deadline);
  instance.image = "debian:12";
  instance.entrypoint = {"sleep 1"};
  instance.execd_token = "token";
  instance.egress_token = "policy token";
  EXPECT_TRUE(consider("a"));
  const SandboxPtr record = store_->find("a");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->status.state, "Running");
  EXPECT_EQ(record->expires_at, deadline);
  EXPECT_EQ(record->execd_token, "token");
  EXPECT_EQ(record->egress_token, "policy token");
  EXPECT_EQ(record->spec->image->uri, "debian:12");
  EXPECT_EQ(record->spec->entrypoint, instance.entrypoint);
  EXPECT_EQ(record->metadata, (api::StringMap{{"name", "found"}}));
  EXPECT_EQ(record->owner, Owner()) << "it belongs to the administrator";
  EXPECT_FALSE(consider("a")) << "it has a record now";
}

TEST_F(AdoptionTest, SandboxesOfOthersAreNotTouched) {
  alive("a", {{"com.example/owner", "other"}});
  alive("b", runtime::make_labels("another id", {}, {}));
  EXPECT_FALSE(consider("a"));
  EXPECT_FALSE(consider("b"));
  EXPECT_THAT(store_->all(), IsEmpty());
  EXPECT_THAT(backend_.removes, IsEmpty());
}

TEST_F(AdoptionTest, ASandboxPastItsDeadlineIsRemoved) {
  marked("a", context_->time.now());
  EXPECT_TRUE(consider("a"));
  EXPECT_THAT(store_->all(), IsEmpty());
  EXPECT_THAT(gone_, ElementsAre("a"));
}

TEST_F(AdoptionTest, ASandboxWhoseLabelsDoNotSayWhenItEndsIsRemoved) {
  alive("a", {{std::string(runtime::label::kId), "a"}});
  EXPECT_TRUE(consider("a"));
  EXPECT_THAT(gone_, ElementsAre("a"));
}

TEST_F(AdoptionTest, AnOldReportOfASandboxThatIsGoneMakesNoRecord) {
  const runtime::Instance old = marked("a");
  backend_.alive.clear();
  EXPECT_TRUE(adoption_->consider(old));
  until_idle();
  EXPECT_THAT(store_->all(), IsEmpty());
}

TEST_F(AdoptionTest, ASandboxThatIsBeingRemovedIsNotAdopted) {
  const runtime::Instance instance = marked("a");
  removals_->begin("a");
  EXPECT_TRUE(adoption_->consider(instance));
  until_idle();
  EXPECT_THAT(store_->all(), IsEmpty());
  EXPECT_THAT(backend_.alive, IsEmpty());
}

TEST_F(AdoptionTest, ARemovalMeanwhileWins) {
  EXPECT_TRUE(adoption_->consider(marked("a")));
  adoption_->forget("a");
  until_idle();
  EXPECT_THAT(store_->all(), IsEmpty());
}

}  // namespace
}  // namespace osb::server::testing
