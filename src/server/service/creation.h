#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "async/timer.h"
#include "base/error.h"

namespace osb::server {

// A create that is being carried out, and the answers that wait for its outcome. One loop.
//
// A create that fails while an answer waits for it, and before any client was given its id, is answered with its
// error and leaves no record. Once a client has the id, the record stays and tells what happened.
class Creation {
 public:
  explicit Creation(net::any_io_executor executor) : over(std::move(executor)) {}

  // An answer that waits. Several clients wait for one create when they send the same Idempotency-Key.
  class Answer {
   public:
    Answer(std::shared_ptr<Creation> creation, const std::string& idempotency_key) : creation_(std::move(creation)) {
      ++creation_->waiting_;
      if (!idempotency_key.empty()) creation_->idempotency_key_ = idempotency_key;
    }
    ~Answer() { --creation_->waiting_; }
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    // Gives the id to the client, or the error. Waits for a withdrawal that has begun.
    net::awaitable<Result<void>> settle() {
      if (creation_->withdrawing_) (void)co_await creation_->over.wait();
      if (creation_->error_) co_return Failure(*creation_->error_);
      creation_->told_ = true;
      co_return Result<void>();
    }

   private:
    const std::shared_ptr<Creation> creation_;
  };

  // Whether only the waiting answers report a failure.
  bool is_withdrawable() const { return waiting_ > 0 && !told_; }
  // No client is given the id from now on, until the outcome is known.
  void begin_withdrawal() { withdrawing_ = true; }
  // The record is gone: this is the answer.
  void withdraw(Error error) { error_ = std::move(error); }
  // The record stays.
  void end_withdrawal() { withdrawing_ = false; }
  const std::string& idempotency_key() const { return idempotency_key_; }

  Event over;
  bool handed = false;  // the backend may have got the create

 private:
  std::string idempotency_key_;  // "" is none, or that of an earlier process
  int waiting_ = 0;
  bool told_ = false;  // a client was given the id
  bool withdrawing_ = false;
  std::optional<Error> error_;
};

// The creates under way, by the id of their sandbox. One loop.
class Creations {
 public:
  explicit Creations(net::any_io_executor executor) : executor_(std::move(executor)) {}

  // The creation of this id, made if there is none.
  std::shared_ptr<Creation> add(const std::string& id) {
    std::shared_ptr<Creation>& creation = all_[id];
    if (!creation) creation = std::make_shared<Creation>(executor_);
    return creation;
  }
  std::shared_ptr<Creation> find(const std::string& id) const {
    const auto found = all_.find(id);
    return found == all_.end() ? nullptr : found->second;
  }
  bool contains(const std::string& id) const { return all_.contains(id); }
  void erase(const std::string& id) { all_.erase(id); }

 private:
  net::any_io_executor executor_;
  std::unordered_map<std::string, std::shared_ptr<Creation>> all_;
};

// The error that clients get for a create that has failed: the contract's code and status.
Error create_failure(Error error, std::string_view backend);

}  // namespace osb::server
