#include "server/service/sandbox_states.h"

#include "server/service/service_parts_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::await;
using runtime::Instance;
using runtime::InstanceState;
using std::chrono::seconds;
using ::testing::HasSubstr;

class SandboxStatesTest : public ServicePartsTest {
 protected:
  static Instance report(const std::string& id, InstanceState state, std::optional<int> exit_code = {},
                         const std::string& reason = "") {
    Instance out;
    out.id = id;
    out.state = state;
    out.exit_code = exit_code;
    out.reason = reason;
    return out;
  }
  const api::Status& status(const std::string& id) { return store_->find(id)->status; }
};

TEST_F(SandboxStatesTest, ReportsOfTheBackendBecomeStates) {
  using api::state::kFailed, api::state::kPaused, api::state::kPending, api::state::kRunning, api::state::kStopping,
      api::state::kTerminated;
  struct {
    const char* why;
    std::string_view from;
    InstanceState said;
    std::optional<int> exit_code;
    const char* reason;
    std::string_view want;
  } const rows[] = {
      {"execd has answered", kPending, InstanceState::Running, {}, "", kRunning},
      {"progress of a create", kPending, InstanceState::Creating, {}, "", kPending},
      {"progress does not undo Running", kRunning, InstanceState::Creating, {}, "", kRunning},
      {"paused by hand", kRunning, InstanceState::Paused, {}, "", kPaused},
      {"an ordinary end", kRunning, InstanceState::Ended, 0, "CONTAINER_EXITED", kTerminated},
      {"an end with an error", kRunning, InstanceState::Ended, 3, "CONTAINER_EXITED_ERROR", kFailed},
      {"a host that was restarted", kRunning, InstanceState::Ended, {}, "HOST_RESTARTED", kTerminated},
      {"a create that never began", kPending, InstanceState::Ended, {}, "", kFailed},
      {"an entrypoint that ended at once", kPending, InstanceState::Ended, 0, "CONTAINER_EXITED", kTerminated},
      {"removed by hand", kRunning, InstanceState::Removing, {}, "", kStopping},
      {"an ended sandbox stays so", kFailed, InstanceState::Running, {}, "", kFailed},
  };
  int number = 0;
  for (const auto& row : rows) {
    const std::string id = "s" + std::to_string(++number);
    in_state(id, row.from);
    states_->apply(report(id, row.said, row.exit_code, row.reason));
    EXPECT_EQ(status(id).state, row.want) << row.why;
  }
}

TEST_F(SandboxStatesTest, AFailedCreateOfThisProcessIsToldByTheCreateItself) {
  in_state("a", api::state::kPending);
  creations_.add("a");
  states_->apply(report("a", InstanceState::Ended));
  EXPECT_EQ(status("a").state, "Pending");
  states_->note_gone("a");
  EXPECT_EQ(status("a").state, "Pending");
  creations_.erase("a");
  states_->note_gone("a");
  EXPECT_EQ(status("a").reason, "SANDBOX_REMOVED");
}

TEST_F(SandboxStatesTest, AReportFromBeforeAPauseIsNotBelieved) {
  const SandboxPtr record = in_state("a", api::state::kRunning);
  {
    const SandboxStates::Transition transition(*states_, "a");
    states_->set(record, api::state::kPausing, "", "");
    states_->apply(report("a", InstanceState::Running));
    EXPECT_EQ(status("a").state, "Pausing");
  }
  states_->apply(report("a", InstanceState::Running));
  EXPECT_EQ(status("a").state, "Running");
}

TEST_F(SandboxStatesTest, TheTokenOfTheRecordStaysWhenAReportHasNone) {
  in_state("a", api::state::kPending);
  states_->apply(report("a", InstanceState::Running));
  EXPECT_EQ(states_->instance("a")->execd_token, "secret");
  states_->forget("a");
  EXPECT_EQ(states_->instance("a"), nullptr);
}

TEST_F(SandboxStatesTest, AnEndedSandboxIsVisibleForAnHourFromItsEnd) {
  in_state("a", api::state::kRunning);
  states_->apply(report("a", InstanceState::Ended, 0));
  const Timestamp ended = *status("a").last_transition_at;
  EXPECT_EQ(queue_->next(ended), ended + seconds(3600));
}

TEST_F(SandboxStatesTest, AWaitEndsWithAChangeWithTheTimeAndWithTheRecord) {
  const SandboxPtr record = in_state("a", api::state::kPending);
  EXPECT_EQ(await(io_, states_->wait_change(record, std::chrono::milliseconds(1))), record) << "the time is up";
  auto changed = net::co_spawn(io_, states_->wait_settled(record, seconds(60)), net::use_future);
  auto gone = net::co_spawn(io_, states_->wait_removed("a"), net::use_future);
  io_.restart();
  io_.poll();
  states_->apply(report("a", InstanceState::Running));
  ASSERT_TRUE(await(io_, store_->begin_remove("a")));
  states_->notify("a");
  while (gone.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(gone.get());
  ASSERT_EQ(changed.wait_for(seconds(0)), std::future_status::ready);
  changed.get();
}

TEST_F(SandboxStatesTest, AMissingSandboxIsExplained) {
  EXPECT_THAT(states_->get("a", Scope::all()).error().message, HasSubstr("does not exist"));
  EXPECT_EQ(states_->get("a", Scope::all()).error().reason, "FAKE::SANDBOX_NOT_FOUND");
  states_->endings().note_deleted(sandbox("a"), at(1));
  EXPECT_THAT(states_->get("a", Scope::all()).error().message, HasSubstr("was deleted at"));
}

}  // namespace
}  // namespace osb::server::testing
