#pragma once

#include <memory>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "base/time.h"
#include "http/body.h"

namespace osb::runtime {

// A snapshot to make.
struct SnapshotSpec {
  std::string sandbox;
  std::string id;
  std::string name = {};  // the user's; "" is none
  // One of the API's, for backends that keep the catalogue themselves. Those of templates are not listed.
  bool listed = false;
};

// A snapshot as a backend tells it that keeps the catalogue: other servers may have made it.
struct SnapshotInfo {
  enum class State { Creating, Ready, Failed };
  std::string id, sandbox_id, name;
  State state = State::Creating;
  std::string reason, message;  // of Failed
  Timestamp created_at{};
};

// File systems of sandboxes, kept for later creates.
class Snapshots {
 public:
  virtual ~Snapshots() = default;
  // Returns when it is ready. Code::Conflict: the id exists.
  virtual net::awaitable<Result<void>> create(SnapshotSpec spec) = 0;
  // Whether it is ready; waits for one that is being made.
  virtual net::awaitable<Result<bool>> exists(std::string snapshot) = 0;
  // A missing snapshot is a success. Code::Conflict: a sandbox uses it.
  virtual net::awaitable<Result<void>> remove(std::string snapshot) = 0;
  // The snapshot as an OCI archive. Code::Unsupported where this one snapshot has no such form.
  virtual net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string snapshot) = 0;
};

}  // namespace osb::runtime
