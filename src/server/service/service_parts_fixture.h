#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "server/service/fake_backend.h"
#include "server/service/removals.h"
#include "server/service/sandbox_states.h"
#include "server/store/store_fixture.h"

namespace osb::server::testing {

// Parts of the service by themselves, on a real store and a fake backend.
class ServicePartsTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    context_.emplace(io_.get_executor(), *store_, backend_, clock_, ServiceOptions(), tasks_);
    queue_.emplace(io_.get_executor(), *store_);
    states_.emplace(*context_, creations_, *queue_);
    removals_.emplace(*context_, *states_, creations_, *queue_, presence_,
                      [this](const std::string& id) { gone_.push_back(id); });
  }
  void TearDown() override {
    osb::testing::await(io_, tasks_.close());
    removals_.reset();
    states_.reset();
    queue_.reset();
    store_.reset();
  }
  SandboxPtr in_state(const std::string& id, std::string_view state) {
    SandboxRecord record = sandbox(id);
    record.status.state = state;
    record.execd_token = "secret";
    create(record);
    states_->add(record, at(0));
    return store_->find(id);
  }
  // A sandbox of the backend.
  runtime::Instance& alive(const std::string& id, api::StringMap labels = {}) {
    runtime::Instance& out = backend_.alive[id];
    out.id = id;
    out.state = runtime::InstanceState::Running;
    out.labels = std::move(labels);
    return out;
  }
  // Runs the loop until no task of the service is left.
  void until_idle() {
    io_.restart();
    while (tasks_.size() > 0) io_.run_one();
  }

  net::io_context io_{1};
  FakeClock clock_;
  FakeBackend backend_{io_.get_executor()};
  TaskGroup tasks_{io_.get_executor()};
  Creations creations_{io_.get_executor()};
  BackendPresence presence_{io_.get_executor(), clock_, backend_};
  std::vector<std::string> gone_;  // as the removals told
  std::optional<ServiceContext> context_;
  std::optional<DeadlineQueue> queue_;
  std::optional<SandboxStates> states_;
  std::optional<Removals> removals_;
};

}  // namespace osb::server::testing
