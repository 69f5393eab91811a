#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace osb::egress {

using SteadyTime = std::chrono::steady_clock::time_point;

// Fills by `per_second` up to `burst`. It may be overdrawn once: has() is asked before the price is known.
class TokenBucket {
 public:
  TokenBucket(double per_second, double burst) : rate_(per_second), burst_(burst), level_(burst) {}

  bool has(double amount, SteadyTime now) {
    fill(now);
    return level_ >= amount;
  }
  bool take(double amount, SteadyTime now) {
    if (!has(amount, now)) return false;
    level_ -= amount;
    return true;
  }
  void charge(double amount) { level_ -= amount; }

 private:
  void fill(SteadyTime now) {
    if (now > last_) level_ = std::min(burst_, level_ + rate_ * std::chrono::duration<double>(now - last_).count());
    last_ = std::max(last_, now);
  }

  double rate_, burst_, level_;
  SteadyTime last_{};
};

// How much a sandbox may ask, so that it can neither take the proxy from other sandboxes nor send much by its
// questions.
class Budget {
 public:
  static constexpr double kQuestionsPerSecond = 5000, kQuestionsAtOnce = 10'000;
  // Bytes of names that leave this host under a wildcard: somebody who runs the name server below it reads them. A
  // name that was asked for recently costs kRepeated.
  static constexpr double kNameBytesPerSecond = 512, kNameBytesAtOnce = 1024, kRepeated = 4;
  // Bytes of answers with free text, the other direction of the same tunnel.
  static constexpr double kTextBytesPerSecond = 512, kTextBytesAtOnce = 4096;

  bool take_question(SteadyTime now) { return questions_.take(1, now); }
  // `below` is how many bytes of the name the policy leaves to the asker.
  bool take_name(std::size_t name_hash, std::size_t below, SteadyTime now);
  bool has_text(SteadyTime now) { return text_.has(1, now); }
  void charge_text(std::size_t bytes) { text_.charge(static_cast<double>(bytes)); }

 private:
  static constexpr std::size_t kRecentNames = 64;
  struct Recent {
    std::array<std::size_t, kRecentNames> hashes{};
    std::size_t next = 0;
  };

  TokenBucket questions_{kQuestionsPerSecond, kQuestionsAtOnce};
  TokenBucket names_{kNameBytesPerSecond, kNameBytesAtOnce};
  TokenBucket text_{kTextBytesPerSecond, kTextBytesAtOnce};
  std::unique_ptr<Recent> recent_;  // made by the first name under a wildcard
};

inline bool Budget::take_name(std::size_t name_hash, std::size_t below, SteadyTime now) {
  const bool known = recent_ && std::ranges::find(recent_->hashes, name_hash) != recent_->hashes.end();
  if (!names_.take(known ? kRepeated : static_cast<double>(below) + kRepeated, now)) return false;
  if (known) return true;
  if (!recent_) recent_ = std::make_unique<Recent>();
  recent_->hashes[recent_->next++ % kRecentNames] = name_hash;
  return true;
}

}  // namespace osb::egress
