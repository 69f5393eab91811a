#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "egress/dns/answer.h"
#include "egress/sandbox/budget.h"

namespace osb::egress {

// Answers until their time is over. Bounded; each belongs to the sandbox that asked first. When the cache is full, the
// sandbox with the most entries loses its oldest one, so that none can push out the answers of others.
class AnswerCache {
 public:
  struct Found {
    std::shared_ptr<const Answer> answer;
    std::uint32_t age = 0;  // seconds
  };

  explicit AnswerCache(std::size_t max_bytes = 32 << 20) : max_bytes_(max_bytes) {}

  std::optional<Found> find(std::string_view key, SteadyTime now);
  void insert(std::uint64_t owner, std::string_view key, std::shared_ptr<const Answer> answer, SteadyTime now);

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Owner;
  struct Entry {
    std::shared_ptr<const Answer> answer;
    SteadyTime made{}, until{};
    std::size_t bytes = 0;
    std::uint64_t owner = 0;
    std::list<std::string_view>::iterator place;  // in the owner's list
  };
  struct Owner {
    std::size_t bytes = 0;
    std::list<std::string_view> order;  // keys in entries_, the newest last
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Entries = std::unordered_map<std::string, Entry, TextHash, std::equal_to<>>;

  void erase(Entries::iterator entry);
  void resize_owner(std::uint64_t number, Owner& owner, std::size_t bytes);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<std::uint64_t, Owner> owners_;
  std::set<std::pair<std::size_t, std::uint64_t>> by_bytes_;  // owners
};

}  // namespace osb::egress
