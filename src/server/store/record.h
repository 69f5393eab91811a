#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/lifecycle_create.h"
#include "api/lifecycle_metadata.h"
#include "api/lifecycle_sandbox.h"
#include "api/lifecycle_template.h"
#include "base/time.h"
#include "server/store/scope.h"

namespace osb::server {

// A moment by two clocks. People and records use the wall clock, which can be set. A running server counts deadlines
// with the other one, so that setting the clock neither ends a sandbox early nor keeps it longer.
struct Moment {
  Moment(Timestamp now, std::chrono::microseconds by = {}) : wall(now), set_by(by) {}

  Timestamp wall;
  std::chrono::microseconds set_by;  // how far ahead the wall clock was set since the server started
  Timestamp running() const { return wall - set_by; }
};

// The server's promises about one sandbox. Records are immutable: a change makes a new one, so the holder of a pointer
// sees one consistent moment, on any thread and for any time.
struct SandboxRecord {
  std::string id;
  Owner owner;
  std::shared_ptr<const api::CreateSandbox> spec;  // never null; as accepted, secrets included
  std::optional<api::Metadata> metadata;           // starts as the spec's, then patched
  std::string execd_token;                         // execd asks for it; a secret, and as durable as the create
  std::string egress_token;                        // its policy API asks for it; a secret, "" without a network policy
  api::Status status;                              // the last state from the backend
  Timestamp created_at{};
  std::optional<Timestamp> expires_at;               // nothing: lives until deleted
  std::chrono::microseconds clock_set_by{};          // Moment::set_by when the deadline was given; not stored
  std::optional<std::chrono::seconds> access_renew;  // each access moves the deadline this far ahead

  // By itself; one that was deleted has no record.
  bool has_ended() const { return status.state == api::state::kTerminated || status.state == api::state::kFailed; }

  // Which people use instead of the id: in the metadata, like any other pair. nullptr is none.
  const std::string* name() const {
    if (!metadata) return nullptr;
    const auto found = metadata->find("name");
    return found == metadata->end() ? nullptr : &found->second;
  }

  // The deadline by the clock that cannot be set, as Moment::running().
  std::optional<Timestamp> due() const { return expires_at ? std::optional(*expires_at - clock_set_by) : std::nullopt; }

  api::SandboxView view() const {
    return {id, spec.get(), &status, metadata ? &*metadata : nullptr, created_at, expires_at};
  }
};
using SandboxPtr = std::shared_ptr<const SandboxRecord>;

struct SnapshotRecord {
  std::string id;
  Owner owner;
  std::string sandbox_id;
  std::string name;            // "" is none
  std::string restore_config;  // JSON for the backend: {"image": ".."}; the store does not look inside
  api::Status status;
  Timestamp created_at{};
};
using SnapshotPtr = std::shared_ptr<const SnapshotRecord>;

// A template and its build. The ids are chosen with the record, so that every later process knows what to look for; an
// id is emptied when nothing is left behind it.
struct TemplateRecord {
  std::string id;
  Owner owner;
  std::shared_ptr<const api::CreateTemplate> spec;  // never null
  api::TemplateStatus status;
  std::string sandbox_id;   // builds it
  std::string snapshot_id;  // of the backend alone: the snapshots of the API do not have it
  std::string log;          // the end of the output of a build that has failed
  Timestamp created_at{};
  Timestamp updated_at{};

  bool is_unfinished() const {
    return status.phase == api::template_phase::kPending || status.phase == api::template_phase::kBuilding;
  }
  api::TemplateView view() const { return {id, spec.get(), &status, created_at, updated_at}; }
};
using TemplatePtr = std::shared_ptr<const TemplateRecord>;

// The key of a create as the store keeps it: each tenant has keys of its own. A line break, which no key of a client
// contains, separates the two.
inline std::string stored_key(const Owner& owner, const std::string& key) {
  return owner.tenant == kDefaultTenant ? key : owner.tenant + "\n" + key;
}

// A create that may be repeated. `fingerprint` tells bodies apart (a digest of the request), `answer` is the answer of
// the first one.
struct IdempotencyKey {
  std::string key;
  std::string fingerprint;
  std::string answer;
};

}  // namespace osb::server
