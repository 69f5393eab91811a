// Two tenants on one server: neither sees, changes or learns of the other's sandboxes. The administrator sees both.

#include "server/service/sandbox_service_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::seconds;
using ::testing::HasSubstr;

class TenantsTest : public testing::SandboxServiceTest {
 protected:
  std::string make(const Principal& who, SandboxService::CreateOptions options = {.wait = seconds(10)}) {
    const auto made = await(io_, service_->create(wanted(seconds(600)), who, std::move(options)));
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->record->id : "";
  }
  std::int64_t count(const Principal& who) { return service_->store().list({}, who.scope()).total; }

  const Principal red_{{"red", "rita"}, Role::Member};
  const Principal blue_{{"blue", "bert"}, Role::Member};
};

TEST_F(TenantsTest, ATenantSeesItsOwnSandboxes) {
  const std::string id = make(red_);
  EXPECT_EQ(store_->find(id)->owner, red_.owner);
  EXPECT_TRUE(service_->get(id, red_.scope()));
  EXPECT_EQ(reason(service_->get(id, blue_.scope())), "FAKE::SANDBOX_NOT_FOUND");
  EXPECT_TRUE(service_->get(id, admin_->scope()));
  EXPECT_EQ(count(red_), 1);
  EXPECT_EQ(count(blue_), 0);
  EXPECT_EQ(count(*admin_), 1);
}

TEST_F(TenantsTest, AForeignSandboxCannotBeChanged) {
  const std::string id = make(red_);
  const std::string missing = "FAKE::SANDBOX_NOT_FOUND";
  EXPECT_EQ(reason(await(io_, service_->pause(id, blue_.scope()))), missing);
  EXPECT_EQ(reason(await(io_, service_->resume(id, blue_.scope()))), missing);
  const Timestamp until = service_->time().now() + seconds(900);
  EXPECT_EQ(reason(await(io_, service_->renew(id, blue_.scope(), until))), missing);
  EXPECT_EQ(reason(await(io_, service_->patch_metadata(id, blue_.scope(), {{"a", "b"}}))), missing);
  EXPECT_EQ(reason(await(io_, service_->snapshots().create(id, "", blue_))), missing);
  EXPECT_EQ(reason(await(io_, service_->remove(id, blue_.scope()))), missing);
  EXPECT_EQ(state(id), "Running");
  EXPECT_EQ(store_->find(id)->metadata, std::nullopt);
  EXPECT_TRUE(await(io_, service_->remove(id, red_.scope())));
}

TEST_F(TenantsTest, TheEndOfAForeignSandboxIsNotTold) {
  const std::string id = make(red_);
  ASSERT_TRUE(await(io_, service_->remove(id, red_.scope())));
  EXPECT_THAT(service_->get(id, red_.scope()).error().message, HasSubstr("was deleted at"));
  EXPECT_THAT(service_->get(id, blue_.scope()).error().message, HasSubstr("does not exist"));
}

TEST_F(TenantsTest, TenantsMayUseTheSameIdempotencyKey) {
  const SandboxService::CreateOptions options{.idempotency_key = "k", .fingerprint = "f", .wait = seconds(10)};
  const std::string red = make(red_, options);
  const std::string blue = make(blue_, options);
  EXPECT_NE(red, blue);
  EXPECT_EQ(make(red_, options), red);
  EXPECT_EQ(make(blue_, options), blue);
}

TEST_F(TenantsTest, TenantsMayClaimTheSameName) {
  api::CreateSandbox named = wanted();
  named.metadata = api::Metadata{{"name", "web"}};
  named.extensions["name.unique"] = "true";
  EXPECT_TRUE(await(io_, service_->create(named, red_, {.wait = seconds(10)})));
  EXPECT_TRUE(await(io_, service_->create(named, blue_, {.wait = seconds(10)})));
  EXPECT_EQ(reason(await(io_, service_->create(named, red_, {.wait = seconds(10)}))), "SANDBOX::NAME_IN_USE");
}

TEST_F(TenantsTest, ASnapshotBelongsToTheTenantOfItsSandbox) {
  const std::string id = make(red_);
  const auto made = await(io_, service_->snapshots().create(id, "", *admin_));
  ASSERT_TRUE(made) << made.error().message;
  const std::string snapshot = (*made)->id;
  EXPECT_EQ((*made)->owner, (Owner{"red", "admin"}));
  ASSERT_EQ(await(io_, service_->snapshots().wait(*made, seconds(10)))->status.state, "Ready");
  EXPECT_TRUE(service_->snapshots().get(snapshot, red_.scope()));
  EXPECT_EQ(reason(service_->snapshots().get(snapshot, blue_.scope())), "SNAPSHOT::NOT_FOUND");
  EXPECT_EQ(reason(await(io_, service_->snapshots().remove(snapshot, blue_.scope()))), "SNAPSHOT::NOT_FOUND");
  EXPECT_EQ(reason(await(io_, service_->snapshots().export_archive(snapshot, blue_.scope()))), "SNAPSHOT::NOT_FOUND");
  api::CreateSandbox restored = wanted();
  restored.image.reset();
  restored.snapshot_id = snapshot;
  EXPECT_EQ(reason(await(io_, service_->create(restored, blue_, {}))), "SNAPSHOT::NOT_FOUND");
  EXPECT_TRUE(await(io_, service_->create(restored, red_, {.wait = seconds(10)})));
}

}  // namespace
}  // namespace osb::server
