#pragma once

#include <memory>
#include <optional>

#include "async/race.h"
#include "egress/sandbox/sandbox.h"

namespace osb::egress {

// Changes of one sandbox's policy and vault happen one after the other, in the order in which they came.
class ChangeTurns {
 public:
  explicit ChangeTurns(net::any_io_executor executor) : idle_(std::move(executor)) {}

  // Held while a change goes on. The turns outlive it.
  class Turn {
   public:
    Turn(ChangeTurns& turns, SandboxPtr sandbox) : turns_(&turns), sandbox_(std::move(sandbox)) {
      sandbox_->changing = true;
    }
    Turn(Turn&& other) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (!sandbox_) return;
      sandbox_->changing = false;
      turns_->idle_.notify_all();
    }

   private:
    ChangeTurns* turns_;
    SandboxPtr sandbox_;
  };

  // Nothing if the wait was cancelled.
  net::awaitable<std::optional<Turn>> take(SandboxPtr sandbox) {
    while (sandbox->changing) {
      if (!co_await idle_.wait()) co_return std::nullopt;
    }
    co_return Turn(*this, std::move(sandbox));
  }

 private:
  Notifier idle_;
};

}  // namespace osb::egress
