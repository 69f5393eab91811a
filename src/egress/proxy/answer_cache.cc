#include "egress/proxy/answer_cache.h"

namespace osb::egress {
namespace {

constexpr std::size_t kEntryCost = 320;  // of the tables, besides key and records

}  // namespace

std::optional<AnswerCache::Found> AnswerCache::find(std::string_view key, SteadyTime now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  if (now >= entry.until) {
    erase(found);
    return std::nullopt;
  }
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - entry.made);
  return Found{entry.answer, static_cast<std::uint32_t>(age.count())};
}

void AnswerCache::insert(std::uint64_t owner, std::string_view key, std::shared_ptr<const Answer> answer,
                         SteadyTime now) {
  if (answer->ttl() == 0) return;
  if (const auto old = entries_.find(key); old != entries_.end()) erase(old);
  const std::size_t bytes = kEntryCost + key.size() + answer->size();
  if (bytes > max_bytes_) return;
  while (bytes_ + bytes > max_bytes_ && !by_bytes_.empty()) {
    const std::string_view oldest = owners_.at(by_bytes_.rbegin()->second).order.front();
    erase(entries_.find(oldest));
  }
  const auto [place, made] = entries_.try_emplace(std::string(key));
  Owner& of = owners_[owner];
  of.order.push_back(place->first);
  const auto until = now + std::chrono::seconds(answer->ttl());
  place->second = {std::move(answer), now, until, bytes, owner, std::prev(of.order.end())};
  bytes_ += bytes;
  resize_owner(owner, of, of.bytes + bytes);
}

void AnswerCache::erase(Entries::iterator entry) {
  const std::uint64_t number = entry->second.owner;
  Owner& owner = owners_.at(number);
  owner.order.erase(entry->second.place);
  bytes_ -= entry->second.bytes;
  resize_owner(number, owner, owner.bytes - entry->second.bytes);
  if (owner.order.empty()) owners_.erase(number);
  entries_.erase(entry);
}

void AnswerCache::resize_owner(std::uint64_t number, Owner& owner, std::size_t bytes) {
  by_bytes_.erase({owner.bytes, number});
  owner.bytes = bytes;
  if (bytes > 0) by_bytes_.insert({bytes, number});
}

}  // namespace osb::egress
