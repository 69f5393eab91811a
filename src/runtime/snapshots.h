#pragma once

#include <memory>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "http/body.h"

namespace osb::runtime {

// File systems of sandboxes, kept for later creates.
class Snapshots {
 public:
  virtual ~Snapshots() = default;
  virtual net::awaitable<Result<void>> create(std::string sandbox, std::string snapshot) = 0;
  virtual net::awaitable<Result<bool>> exists(std::string snapshot) = 0;
  // A missing snapshot is a success. Code::Conflict: a sandbox uses it.
  virtual net::awaitable<Result<void>> remove(std::string snapshot) = 0;
  // The snapshot as an OCI archive. Code::Unsupported where this one snapshot has no such form.
  virtual net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string snapshot) = 0;
};

}  // namespace osb::runtime
