#include "server/service/snapshot_service.h"

#include "server/service/service_parts_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::await;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SnapshotServiceTest : public ServicePartsTest {
 protected:
  void SetUp() override {
    ServicePartsTest::SetUp();
    snapshots_.emplace(*context_, *states_);
  }
  std::string create_of(const std::string& sandbox) {
    const auto made = await(io_, snapshots_->create(sandbox, "name", admin_));
    EXPECT_TRUE(made) << made.error().message;
    return made ? (*made)->id : "";
  }
  // A record that an earlier process left.
  void left(const std::string& id, std::string state) {
    SnapshotRecord record = snapshot(id, "a");
    record.status.state = std::move(state);
    ASSERT_TRUE(await(io_, store_->create_snapshot(std::move(record))));
  }
  void recover() {
    snapshots_->start();
    snapshots_->recover();
    until_idle();
  }
  std::string state(const std::string& id) {
    const SnapshotPtr found = store_->find_snapshot(id);
    return found ? found->status.state : "";
  }

  const Principal admin_{Owner(), Role::Administrator};
  std::optional<SnapshotService> snapshots_;
};

TEST_F(SnapshotServiceTest, ACreateIsAcceptedAndBecomesReady) {
  in_state("a", api::state::kRunning);
  backend_.hold_snapshots = true;
  const std::string id = create_of("a");
  EXPECT_EQ(state(id), "Creating");
  const SnapshotPtr accepted = store_->find_snapshot(id);
  EXPECT_EQ(await(io_, snapshots_->wait(accepted, seconds(0)))->status.state, "Creating");
  backend_.release_snapshots();
  EXPECT_EQ(await(io_, snapshots_->wait(accepted, seconds(60)))->status.state, "Ready");
  EXPECT_THAT(backend_.kept_snapshots, ElementsAre(id));
  EXPECT_EQ(store_->find_snapshot(id)->name, "name");
}

TEST_F(SnapshotServiceTest, OnlyARunningOrPausedSandboxOfTheScopeIsTaken) {
  in_state("a", api::state::kStopping);
  EXPECT_EQ(await(io_, snapshots_->create("a", "", admin_)).error().reason, "SNAPSHOT::INVALID_SOURCE_STATE");
  EXPECT_EQ(await(io_, snapshots_->create("b", "", admin_)).error().reason, "FAKE::SANDBOX_NOT_FOUND");
  const Principal other{{"other", "olga"}, Role::Member};
  EXPECT_EQ(await(io_, snapshots_->create("a", "", other)).error().reason, "FAKE::SANDBOX_NOT_FOUND");
  EXPECT_EQ(backend_.snapshots_begun, 0);
}

TEST_F(SnapshotServiceTest, ARefusedRemovalLeavesTheSnapshotAsItWas) {
  in_state("a", api::state::kRunning);
  const std::string id = create_of("a");
  until_idle();
  backend_.remove_snapshot_error = Error(Code::Conflict, "a sandbox uses it");
  const auto refused = await(io_, snapshots_->remove(id, Scope::all()));
  EXPECT_EQ(refused.error().reason, "SNAPSHOT::DELETE_CONFLICT");
  EXPECT_EQ(state(id), "Ready");
  backend_.remove_snapshot_error.reset();
  EXPECT_TRUE(await(io_, snapshots_->remove(id, Scope::all())));
  EXPECT_EQ(state(id), "");
  EXPECT_THAT(backend_.kept_snapshots, IsEmpty());
}

TEST_F(SnapshotServiceTest, CreatesOfAnEarlierProcessEndAsTheBackendHasThem) {
  left("made", "Creating");
  left("lost", "Creating");
  backend_.kept_snapshots = {"made"};
  recover();
  EXPECT_EQ(state("made"), "Ready");
  EXPECT_EQ(state("lost"), "Failed");
  EXPECT_THAT(store_->find_snapshot("lost")->status.message, HasSubstr("ended before"));
}

TEST_F(SnapshotServiceTest, ARemovalOfAnEarlierProcessIsFinished) {
  left("a1", "Deleting");
  left("a2", "Ready");
  backend_.kept_snapshots = {"a1", "a2"};
  recover();
  EXPECT_EQ(state("a1"), "");
  EXPECT_THAT(backend_.kept_snapshots, ElementsAre("a2"));
}

TEST_F(SnapshotServiceTest, OnlyAReadySnapshotIsExported) {
  left("a1", "Failed");
  left("a2", "Ready");
  EXPECT_EQ(await(io_, snapshots_->export_archive("a1", Scope::all())).error().reason, "SNAPSHOT::NOT_READY");
  EXPECT_EQ(await(io_, snapshots_->export_archive("a2", Scope::all())).error().reason, "SNAPSHOT::NOT_IMPLEMENTED");
  EXPECT_EQ(await(io_, snapshots_->export_archive("a3", Scope::all())).error().reason, "SNAPSHOT::NOT_FOUND");
}

}  // namespace
}  // namespace osb::server::testing
