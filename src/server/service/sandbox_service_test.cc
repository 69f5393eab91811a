#include "server/service/sandbox_service_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::microseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SandboxServiceTest;
using ::testing::SizeIs;

TEST_F(SandboxServiceTest, ACreateIsPendingUntilTheBackendSaysThatItRuns) {
  backend_.hold_creates = true;
  const auto made = create(seconds(60), seconds(0));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->record->status.state, "Pending");
  EXPECT_EQ(made->record->expires_at, made->record->created_at + seconds(60));
  until([&] { return !backend_.creates.empty(); });
  EXPECT_EQ(state(made->record->id), "Pending");
  ASSERT_NE(service_->instance(made->record->id), nullptr);
  EXPECT_THAT(service_->instance(made->record->id)->execd_token, SizeIs(64));
  backend_.release_creates();
  const auto settled = await(io_, service_->wait_settled(made->record, seconds(10)));
  EXPECT_EQ(settled->status.state, "Running");
}

TEST_F(SandboxServiceTest, StagesOfACreateAreShown) {
  backend_.hold_creates = true;
  const auto made = create({}, seconds(0));
  until([&] { return !backend_.creates.empty(); });
  runtime::Instance pulling;
  pulling.id = made->record->id;
  pulling.message = "pulling 45%";
  service_->observer().on_change(pulling);
  EXPECT_EQ(store_->find(pulling.id)->status.message, "pulling 45%");
  EXPECT_EQ(state(pulling.id), "Pending");
  backend_.release_creates();
}

TEST_F(SandboxServiceTest, ADeleteDuringTheCreateLeavesNothing) {
  backend_.hold_creates = true;
  const auto made = create({}, seconds(0));
  const std::string id = made->record->id;
  until([&] { return !backend_.creates.empty(); });
  // The remove comes first and finds nothing; then the create succeeds.
  auto removing = net::co_spawn(io_, service_->remove(id, Scope::all()), net::use_future);
  until([&] { return !backend_.removes.empty(); });
  EXPECT_EQ(state(id), "");
  backend_.release_creates();
  until([&] { return backend_.removes.size() == 2; });
  while (removing.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(removing.get());
  EXPECT_THAT(backend_.alive, IsEmpty());
  EXPECT_THAT(store_->removals(), IsEmpty());
}

TEST_F(SandboxServiceTest, ADeleteThatTheBackendRefusesGoesOnInTheBackground) {
  const std::string id = running();
  backend_.remove_error = Error(Code::Internal, "busy");
  EXPECT_EQ(reason(await(io_, service_->remove(id, Scope::all()))), "FAKE::SANDBOX_DELETE_FAILED");
  EXPECT_EQ(reason(await(io_, service_->remove(id, Scope::all()))), "FAKE::SANDBOX_NOT_FOUND");
  backend_.remove_error.reset();
  service_->observer().on_all(backend_.all());  // a retry comes with the next sign of life, or by itself
  until([&] { return backend_.removes.size() >= 2; });
  EXPECT_THAT(backend_.alive, IsEmpty());
}

TEST_F(SandboxServiceTest, APauseWhoseEndWasNotHeardIsSettledByTheBackend) {
  const std::string id = running();
  api::Status pausing = store_->find(id)->status;
  pausing.state = api::state::kPausing;  // as a server finds it that was killed right after its answer
  ASSERT_TRUE(store_->change_status(id, {}, pausing));
  auto resuming = net::co_spawn(io_, service_->resume(id, Scope::all()), net::use_future);
  io_.restart();
  io_.poll();
  backend_.alive.at(id).state = runtime::InstanceState::Paused;
  backend_.say(id);
  while (resuming.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(resuming.get());
  EXPECT_EQ(state(id), "Running");
}

TEST_F(SandboxServiceTest, ARepeatedKeyGivesTheSameSandbox) {
  const SandboxService::CreateOptions options{.idempotency_key = "k", .fingerprint = "f", .wait = seconds(10)};
  const auto first = await(io_, service_->create(wanted(), *admin_, options));
  const auto second = await(io_, service_->create(wanted(), *admin_, options));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->record->id, second->record->id);
  EXPECT_THAT(backend_.creates, SizeIs(1));
  auto other = options;
  other.fingerprint = "g";
  EXPECT_EQ(reason(await(io_, service_->create(wanted(), *admin_, other))), "SANDBOX::IDEMPOTENCY_CONFLICT");
  ASSERT_TRUE(await(io_, service_->remove(first->record->id, Scope::all())));
  const auto gone = await(io_, service_->create(wanted(), *admin_, options));
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->record, nullptr);
  EXPECT_THAT(gone->answer, ::testing::HasSubstr(first->record->id));
}

TEST_F(SandboxServiceTest, CreatesBeyondTheQueueAreTurnedAway) {
  end();
  options_.max_concurrent_creates = 1;
  options_.max_queued_creates = 1;
  begin();
  backend_.hold_creates = true;
  const auto first = create({}, seconds(0));
  const auto second = create({}, seconds(0));
  ASSERT_TRUE(first && second);
  const auto third = create({}, seconds(0));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::Exhausted);
  EXPECT_EQ(third.error().reason, "SANDBOX::CAPACITY_EXCEEDED");
  until([&] { return !backend_.creates.empty(); });
  EXPECT_THAT(backend_.creates, SizeIs(1));
  // A create that still waits in the queue is deleted without a call of the backend.
  EXPECT_TRUE(await(io_, service_->remove(second->record->id, Scope::all())));
  backend_.release_creates();
  EXPECT_EQ(await(io_, service_->wait_settled(first->record, seconds(10)))->status.state, "Running");
  running();
  EXPECT_THAT(backend_.creates, SizeIs(2));
}

TEST_F(SandboxServiceTest, SandboxesBeyondTheLimitAreTurnedAway) {
  end();
  options_.max_sandboxes = 1;
  begin();
  const std::string id = running();
  EXPECT_EQ(reason(create()), "SANDBOX::CAPACITY_EXCEEDED");
  // A sandbox that has ended does not count any more.
  backend_.alive.at(id).state = runtime::InstanceState::Ended;
  backend_.say(id);
  running();
}

TEST_F(SandboxServiceTest, ARecordedSandboxThatIsGoneIsTerminated) {
  const std::string id = running();
  end();
  backend_.alive.clear();
  begin();
  until([&] { return backend_.observer != nullptr; });
  EXPECT_EQ(state(id), "Terminated");
  EXPECT_EQ(store_->find(id)->status.reason, "SANDBOX_LOST");
}

TEST_F(SandboxServiceTest, AnAcceptedCreateIsCarriedOutByTheNextProcess) {
  backend_.hold_creates = true;
  const auto made = create({}, seconds(0));
  until([&] { return !backend_.creates.empty(); });
  const std::string token = service_->instance(made->record->id)->execd_token;
  end();
  backend_.hold_creates = false;
  backend_.alive.clear();
  reopen();
  begin();
  const auto record = await(io_, service_->wait_settled(store_->find(made->record->id), seconds(10)));
  EXPECT_EQ(record->status.state, "Running");
  EXPECT_EQ(service_->instance(record->id)->execd_token, token);
}

TEST_F(SandboxServiceTest, ARemovalIsFinishedByTheNextProcess) {
  const std::string id = running();
  backend_.remove_error = Error(Code::Unavailable, "gone");
  EXPECT_FALSE(await(io_, service_->remove(id, Scope::all())));
  backend_.remove_error.reset();
  backend_.removes.clear();
  restart();
  until([&] { return !backend_.removes.empty(); });
  EXPECT_THAT(backend_.removes, ElementsAre(id));
  EXPECT_THAT(backend_.alive, IsEmpty());
}

TEST_F(SandboxServiceTest, VolumesAreLookedAtBeforeTheAnswer) {
  backend_.volume_error = Error(Code::InvalidRequest, "no such volume");
  auto spec = wanted(seconds(600));
  EXPECT_TRUE(await(io_, service_->create(spec, *admin_, {.wait = seconds(10)})));
  api::Volume& volume = spec.volumes.emplace_back();
  volume.name = "v";
  volume.mount_path = "/v";
  volume.pvc.emplace().claim_name = "absent";
  const auto refused = await(io_, service_->create(std::move(spec), *admin_, {.wait = seconds(10)}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "no such volume");
  EXPECT_EQ(store_->size(), 1u);
}

// As a server finds things that has lost its records.
TEST_F(SandboxServiceTest, SandboxesWithoutRecordsAreTakenOver) {
  auto spec = wanted(seconds(600));
  spec.metadata = api::StringMap{{"team", "a"}};
  const auto made = await(io_, service_->create(std::move(spec), *admin_, {.wait = seconds(10)}));
  ASSERT_TRUE(made);
  const SandboxRecord before = *made->record;
  const std::string forever = running();
  const std::string token = service_->instance(before.id)->execd_token;
  lose_records();
  const auto found = await_record(before.id);
  EXPECT_EQ(found->status.state, "Running");
  EXPECT_EQ(found->expires_at, before.expires_at);
  EXPECT_EQ(found->metadata, before.metadata);
  EXPECT_EQ(found->spec->image, before.spec->image);
  EXPECT_EQ(found->spec->entrypoint, before.spec->entrypoint);
  EXPECT_EQ(service_->instance(before.id)->execd_token, token);
  EXPECT_FALSE(await_record(forever)->expires_at);
  // And once more, from the records that were made.
  restart();
  EXPECT_EQ(state(before.id), "Running");
  EXPECT_EQ(service_->instance(before.id)->execd_token, token);
  clock_.advance(seconds(600));
  service_->check_deadlines();
  until([&] { return !backend_.alive.contains(before.id); });
  EXPECT_TRUE(backend_.alive.contains(forever));
}

TEST_F(SandboxServiceTest, SandboxesPastOrWithoutADeadlineAreRemovedAndForeignOnesLeftAlone) {
  const std::string late = running(seconds(60)), mute = running();
  runtime::Instance stranger;
  stranger.id = "stranger";
  stranger.state = runtime::InstanceState::Running;
  stranger.labels = {{"opensandbox.io/manual-cleanup", "true"}};
  backend_.alive["stranger"] = stranger;
  backend_.alive.at(mute).labels = {{"opensandbox.io/id", mute}};
  clock_.advance(seconds(60));
  lose_records();
  until([&] { return backend_.alive.size() == 1; });
  EXPECT_TRUE(backend_.alive.contains("stranger"));
  EXPECT_EQ(store_->size(), 0u);
  EXPECT_THAT(backend_.removes, ::testing::UnorderedElementsAre(late, mute));
}

TEST_F(SandboxServiceTest, OldEventsDoNotBringBackARemovedSandbox) {
  const std::string id = running();
  const runtime::Instance old = backend_.alive.at(id);
  ASSERT_TRUE(await(io_, service_->remove(id, Scope::all())));
  service_->observer().on_change(old);
  io_.restart();
  io_.poll();
  EXPECT_TRUE(await(io_, store_->flush()));
  EXPECT_EQ(store_->size(), 0u);
}

TEST_F(SandboxServiceTest, ACreateOfAnEarlierProcessThatFailsSaysWhy) {
  backend_.hold_creates = true;
  const auto made = create({}, seconds(0));
  until([&] { return !backend_.creates.empty(); });
  const std::string id = made->record->id;
  // The backend goes on with it when the server has gone.
  runtime::Instance creating;
  creating.id = id;
  backend_.alive[id] = creating;
  restart();
  EXPECT_EQ(state(id), "Pending");
  creating.state = runtime::InstanceState::Ended;
  creating.reason = "FAKE::SANDBOX_IMAGE_PULL_FAILED";
  creating.message = "no such image";
  backend_.alive.erase(id);
  service_->observer().on_change(creating);
  service_->observer().on_removed(id);
  const auto status = store_->find(id)->status;
  EXPECT_EQ(status.state, "Failed");
  EXPECT_EQ(status.reason, "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_EQ(status.message, "no such image");
  backend_.release_creates();
}

TEST_F(SandboxServiceTest, ASandboxThatAnotherServerRemovedIsGoneHereToo) {
  const std::string kept = running();
  service_->observer().on_removed(kept);
  EXPECT_EQ(state(kept), "Terminated") << "nobody else should have";
  backend_.can.removals_are_shared = true;
  const std::string id = running();
  backend_.alive.erase(id);
  service_->observer().on_removed(id);
  until([&] { return store_->find(id) == nullptr; });
}

TEST_F(SandboxServiceTest, PauseAndResumeGoThroughTheStates) {
  const std::string id = running();
  EXPECT_EQ(reason(await(io_, service_->resume(id, Scope::all()))), "FAKE::SANDBOX_NOT_PAUSED");
  EXPECT_TRUE(await(io_, service_->pause(id, Scope::all())));
  EXPECT_EQ(state(id), "Paused");
  EXPECT_EQ(reason(await(io_, service_->pause(id, Scope::all()))), "FAKE::SANDBOX_NOT_RUNNING");
  EXPECT_TRUE(await(io_, service_->resume(id, Scope::all())));
  EXPECT_EQ(state(id), "Running");
  backend_.pause_error = Error(Code::Internal, "frozen solid");
  EXPECT_EQ(reason(await(io_, service_->pause(id, Scope::all()))), "FAKE::SANDBOX_PAUSE_FAILED");
  EXPECT_EQ(state(id), "Running");
}

TEST_F(SandboxServiceTest, AccessRenewsOnceInAnInterval) {
  end();
  options_.renew_on_access = true;
  begin();
  auto spec = wanted(seconds(60));
  spec.extensions["access.renew.extend.seconds"] = "300";
  const auto made = await(io_, service_->create(std::move(spec), *admin_, {.wait = seconds(10)}));
  ASSERT_TRUE(made);
  const std::string id = made->record->id;
  const auto touch = [&] {
    service_->access_renewals().touch(*store_->find(id));
    EXPECT_TRUE(await(io_, store_->flush()));
    io_.restart();
    io_.poll();
    return *store_->find(id)->expires_at - service_->time().now();
  };
  clock_.advance(seconds(10));
  EXPECT_EQ(touch(), seconds(300));
  clock_.advance(seconds(30));
  EXPECT_EQ(touch(), seconds(270));
}

TEST_F(SandboxServiceTest, ASnapshotBecomesReadyAndCanBeStartedFrom) {
  const std::string id = running();
  backend_.hold_snapshots = true;
  const auto made = await(io_, service_->snapshots().create(id, "first", *admin_));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->status.state, "Creating");
  auto restored = wanted();
  restored.image.reset();
  restored.snapshot_id = (*made)->id;
  EXPECT_EQ(reason(await(io_, service_->create(restored, *admin_, {}))), "SNAPSHOT::NOT_READY");
  backend_.release_snapshots();
  while (store_->find_snapshot((*made)->id)->status.state == "Creating") io_.run_one();
  EXPECT_EQ(store_->find_snapshot((*made)->id)->status.reason, "snapshot_runtime_ready");
  EXPECT_TRUE(await(io_, service_->create(restored, *admin_, {.wait = seconds(10)})));
  EXPECT_TRUE(await(io_, service_->snapshots().remove((*made)->id, Scope::all())));
  EXPECT_EQ(reason(service_->snapshots().get((*made)->id, Scope::all())), "SNAPSHOT::NOT_FOUND");
  EXPECT_THAT(backend_.kept_snapshots, IsEmpty());
}

TEST_F(SandboxServiceTest, ASnapshotThatIsInUseStaysWhatItWas) {
  const std::string snapshot = ready_snapshot();
  const api::Status before = store_->find_snapshot(snapshot)->status;
  backend_.remove_snapshot_error = Error(Code::Conflict, "in use");
  EXPECT_EQ(reason(await(io_, service_->snapshots().remove(snapshot, Scope::all()))), "SNAPSHOT::DELETE_CONFLICT");
  EXPECT_EQ(store_->find_snapshot(snapshot)->status, before);
  backend_.remove_snapshot_error.reset();
  restart();
  until_recovered();
  ASSERT_NE(store_->find_snapshot(snapshot), nullptr);
  EXPECT_EQ(store_->find_snapshot(snapshot)->status, before);
  EXPECT_THAT(backend_.kept_snapshots, ElementsAre(snapshot));
  auto restored = wanted();
  restored.image.reset();
  restored.snapshot_id = snapshot;
  EXPECT_TRUE(await(io_, service_->create(restored, *admin_, {.wait = seconds(10)})));
  EXPECT_TRUE(await(io_, service_->snapshots().remove(snapshot, Scope::all())));
}

TEST_F(SandboxServiceTest, ARemovalThatWasNotRefusedGoesOnAfterARestart) {
  const std::string snapshot = ready_snapshot();
  backend_.remove_snapshot_error = Error(Code::Unavailable, "not now");
  EXPECT_FALSE(await(io_, service_->snapshots().remove(snapshot, Scope::all())));
  EXPECT_EQ(store_->find_snapshot(snapshot)->status.state, "Deleting");
  backend_.remove_snapshot_error.reset();
  restart();
  io_.restart();
  while (store_->find_snapshot(snapshot)) io_.run_one();
  EXPECT_THAT(backend_.kept_snapshots, IsEmpty());
}

TEST_F(SandboxServiceTest, ASnapshotBegunBeforeTheBackendWasHeardIsNotAnEarlierProcesses) {
  const std::string id = running();
  backend_.hold_watch = backend_.hold_snapshots = true;
  restart();
  const auto made = await(io_, service_->snapshots().create(id, "", *admin_));
  ASSERT_TRUE(made) << made.error().message;
  until([&] { return backend_.snapshots_begun == 1; });
  backend_.release_watch();
  until_recovered();
  EXPECT_EQ(store_->find_snapshot((*made)->id)->status.state, "Creating");
  backend_.release_snapshots();
  EXPECT_EQ(await(io_, service_->snapshots().wait(*made, seconds(10)))->status.state, "Ready");
  EXPECT_THAT(backend_.kept_snapshots, ElementsAre((*made)->id));
}

TEST_F(SandboxServiceTest, ASnapshotOfAnEarlierProcessIsReadyIfItWasMade) {
  const std::string id = running();
  backend_.hold_snapshots = true;
  const auto made = await(io_, service_->snapshots().create(id, "made", *admin_));
  const auto lost = await(io_, service_->snapshots().create(id, "lost", *admin_));
  until([&] { return backend_.snapshots_begun == 2; });
  end();
  // As a process finds it that comes after one that was killed.
  backend_.kept_snapshots = {(*made)->id};
  for (const auto& each : {*made, *lost}) {
    EXPECT_TRUE(await(io_, store_->erase_snapshot(each->id)));
    EXPECT_TRUE(await(io_, store_->create_snapshot(*each)));
  }
  begin();
  io_.restart();
  const auto state_of = [&](const SnapshotPtr& each) { return store_->find_snapshot(each->id)->status.state; };
  while (state_of(*made) == "Creating" || state_of(*lost) == "Creating") io_.run_one();
  EXPECT_EQ(state_of(*made), "Ready");
  EXPECT_EQ(state_of(*lost), "Failed");
}

}  // namespace
}  // namespace osb::server
