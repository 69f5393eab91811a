#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "api/lifecycle_sandbox.h"
#include "server/store/sqlite_store.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::server::testing {

inline Timestamp at(std::int64_t seconds) { return Timestamp(std::chrono::seconds(1'700'000'000 + seconds)); }

inline SandboxRecord sandbox(std::string id, Timestamp created = at(0), std::optional<Timestamp> expires = {}) {
  api::CreateSandbox spec;
  spec.image = api::ImageSpec{"debian:12", api::ImageLogin{"me", "hunter2"}};
  spec.entrypoint = {"sleep", "infinity"};
  spec.resource_limits = api::StringMap{{"cpu", "1"}};
  SandboxRecord record;
  record.id = std::move(id);
  record.spec = std::make_shared<const api::CreateSandbox>(std::move(spec));
  record.status = {std::string(api::state::kPending), "CONTAINER_STARTING", "The sandbox is starting.", created};
  record.created_at = created;
  record.expires_at = expires;
  return record;
}

inline SnapshotRecord snapshot(std::string id, std::string sandbox_id, Timestamp created = at(0)) {
  SnapshotRecord record;
  record.id = std::move(id);
  record.sandbox_id = std::move(sandbox_id);
  record.restore_config = "{}";
  record.status = {"Creating", "snapshot_accepted", "Snapshot creation accepted.", created};
  record.created_at = created;
  return record;
}

// A store in a directory of its own; reopen() is what a restart sees.
class StoreFixture : public ::testing::Test {
 protected:
  void SetUp() override { reopen(); }

  void reopen() {
    store_.reset();
    auto opened = open_sqlite_store({.path = path()});
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }

  std::filesystem::path path() const { return directory_ / "records" / "store.db"; }

  void create(SandboxRecord record) {
    const auto created = osb::testing::await(store_->create(std::move(record), {}));
    ASSERT_TRUE(created) << created.error().message;
  }

  osb::testing::TempDir directory_;
  std::unique_ptr<Store> store_;
};

}  // namespace osb::server::testing
