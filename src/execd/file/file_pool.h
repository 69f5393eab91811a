#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "async/blocking_pool.h"
#include "execd/owner/identity.h"

namespace osb::execd {

// The door to blocking calls on files: threads of the pool, on which they happen with the rights of the request's
// identity. A value that may outlive the request; the pool outlives it.
class FilePool {
 public:
  FilePool(BlockingPool& pool) : pool_(&pool) {}  // the daemon's own rights

  FilePool as(const Identity& identity) const {
    FilePool other = *this;
    other.identity_ = identity;
    return other;
  }

  // Whether short calls may be made on the loop itself.
  bool is_daemon() const { return !identity_; }

  // As BlockingPool::run. `fn` returns a Result, or nothing; where the identity cannot be taken on it is not called and
  // the Result is that error.
  template <typename F>
  net::awaitable<std::invoke_result_t<F&>> run(F fn) const {
    if (!identity_) return pool_->run(std::move(fn));
    return pool_->run([identity = *identity_, fn = std::move(fn)]() mutable -> std::invoke_result_t<F&> {
      const auto scope = IdentityScope::enter(identity);
      if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
        if (scope) fn();
      } else {
        if (!scope) return Failure(scope.error());
        return fn();
      }
    });
  }

 private:
  BlockingPool* pool_;
  std::optional<Identity> identity_;
};

}  // namespace osb::execd
