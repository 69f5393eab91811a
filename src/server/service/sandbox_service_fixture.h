#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "server/service/fake_backend.h"
#include "server/service/sandbox_service.h"
#include "server/store/store_fixture.h"

namespace osb::server::testing {

// A service on a real store and a fake backend, with a clock that a test moves.
class SandboxServiceTest : public StoreFixture {
 protected:
  using seconds = std::chrono::seconds;

  void SetUp() override {
    StoreFixture::SetUp();
    begin();
  }
  void TearDown() override {
    end();
    store_.reset();  // before the loop that its changes go back to
  }

  void begin() {
    service_ = std::make_unique<SandboxService>(io_.get_executor(), *store_, backend_, clock_, options_);
    service_->start();
  }
  void end() {
    if (!service_) return;
    osb::testing::await(io_, service_->close());
    service_.reset();
    backend_.observer = nullptr;
  }
  // As a new process finds things.
  void restart() {
    end();
    reopen();
    begin();
  }

  void lose_records() {
    end();
    store_.reset();
    std::filesystem::remove_all(path().parent_path());
    reopen();
    begin();
  }
  SandboxPtr await_record(const std::string& id) {
    io_.restart();
    while (!store_->find(id) || store_->find(id)->status.state == "Pending") io_.run_one();
    return store_->find(id);
  }

  static api::CreateSandbox wanted(std::optional<seconds> timeout = {}) {
    api::CreateSandbox out;
    out.image = api::ImageSpec{"host", {}};
    out.entrypoint = {"sleep", "infinity"};
    out.resource_limits = api::StringMap{};
    out.timeout = timeout;
    return out;
  }
  Result<SandboxService::CreateResult> create(std::optional<seconds> timeout = {}, seconds wait = seconds(10)) {
    return osb::testing::await(io_, service_->create(wanted(timeout), *admin_, {.wait = wait}));
  }
  std::string running(std::optional<seconds> timeout = {}) {
    const auto made = create(timeout);
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->record->status.state, "Running");
    return made->record->id;
  }
  std::string ready_snapshot() {
    auto made = osb::testing::await(io_, service_->snapshots().create(running(), "", *admin_));
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_EQ(osb::testing::await(io_, service_->snapshots().wait(*made, seconds(10)))->status.state, "Ready");
    return (*made)->id;
  }
  // The backend's events have arrived, and the records have their effects.
  void until_recovered() {
    io_.restart();
    while (!service_->backend_reachable()) io_.run_one();
    io_.poll();
    (void)osb::testing::await(io_, store_->flush());
  }
  void until(std::function<bool()> condition) { osb::testing::await(io_, backend_.until(std::move(condition))); }
  std::string state(const std::string& id) {
    const auto record = store_->find(id);
    return record ? record->status.state : "";
  }
  template <typename T>
  static std::string reason(const Result<T>& result) {
    return result ? "" : result.error().reason;
  }

  net::io_context io_{1};
  FakeClock clock_;
  const PrincipalPtr admin_ = std::make_shared<const Principal>(Owner(), Role::Administrator);
  FakeBackend backend_{io_.get_executor()};
  ServiceOptions options_;
  std::unique_ptr<SandboxService> service_;
};

}  // namespace osb::server::testing
