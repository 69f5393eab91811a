#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/keyed_hash.h"

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

// Hashes that were added lately. A new one takes the place of an older one.
class RecentHashes {
 public:
  bool has(std::uint64_t hash) const { return hashes_ && hash != 0 && (*hashes_)[hash % kPlaces] == hash; }
  void add(std::uint64_t hash) {
    if (!hashes_) hashes_ = std::make_unique<std::array<std::uint64_t, kPlaces>>();
    (*hashes_)[hash % kPlaces] = hash;
  }

 private:
  static constexpr std::size_t kPlaces = 1024;
  std::unique_ptr<std::array<std::uint64_t, kPlaces>> hashes_;  // made by the first one
};

// How much a sandbox may ask and be told, so that it can neither take the proxy from other sandboxes nor exchange much
// with somebody who runs a name server below a permitted wildcard. What it has asked for or was told lately costs
// little.
class Budget {
 public:
  static constexpr double kQuestionsPerSecond = 5000, kQuestionsAtOnce = 10'000;
  static constexpr double kRepeated = 4;
  // Bytes of names that leave this host under a wildcard.
  static constexpr double kNameBytesPerSecond = 512, kNameBytesAtOnce = 1024;
  // Bytes of answers to names under a wildcard, and of answers with free text: the other direction of the same tunnel.
  static constexpr double kAnswerBytesPerSecond = 512, kAnswerBytesAtOnce = 4096;

  // A record of an answer.
  struct Told {
    std::uint64_t hash = 0;
    std::size_t bytes = 0;
  };
  Told told(std::string_view content, std::size_t bytes) const { return {.hash = hash_(content), .bytes = bytes}; }

  bool take_question(SteadyTime now) { return questions_.take(1, now); }
  // `below` is how many bytes of the name the policy leaves to the asker.
  bool take_name(std::string_view name, std::size_t below, SteadyTime now);
  bool has_answers(SteadyTime now) { return answers_.has(1, now); }
  // `answer`: a number that no other answer has; the same answer costs nothing when it is told again. `overdraw`: an
  // answer of any size while something is left.
  bool take_answer(std::uint64_t answer, std::span<const Told> records, bool overdraw, SteadyTime now);

 private:
  TokenBucket questions_{kQuestionsPerSecond, kQuestionsAtOnce};
  TokenBucket names_{kNameBytesPerSecond, kNameBytesAtOnce};
  TokenBucket answers_{kAnswerBytesPerSecond, kAnswerBytesAtOnce};
  KeyedHash hash_;
  RecentHashes recent_;  // of names and records, and numbers of answers
};

inline bool Budget::take_name(std::string_view name, std::size_t below, SteadyTime now) {
  const std::uint64_t hash = hash_(name);
  const bool known = recent_.has(hash);
  if (!names_.take(known ? kRepeated : static_cast<double>(below) + kRepeated, now)) return false;
  recent_.add(hash);
  return true;
}

inline bool Budget::take_answer(std::uint64_t answer, std::span<const Told> records, bool overdraw, SteadyTime now) {
  if (recent_.has(answer)) return true;
  double price = 0;
  for (const Told& record : records) {
    price += kRepeated;
    if (!recent_.has(record.hash)) price += static_cast<double>(record.bytes);
  }
  if (!answers_.has(overdraw ? 1 : price, now)) return false;
  answers_.charge(price);
  recent_.add(answer);
  for (const Told& record : records) recent_.add(record.hash);
  return true;
}

}  // namespace osb::egress
