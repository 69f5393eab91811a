#include "sandboxd/sandbox/sandbox_table.h"

namespace osb::sandboxd {

net::awaitable<EntryGuard> EntryGuard::lock(EntryPtr entry) {
  while (entry->busy) co_await entry->free.wait();
  co_return EntryGuard(std::move(entry));
}

void SandboxTable::add(EntryPtr entry) {
  const std::string id = entry->id();
  count(*entry);
  entries_.emplace(id, std::move(entry));
  publish(id);
}

void SandboxTable::remove(const SandboxEntry& entry, const std::optional<Error>& failure) {
  // The entry may go with its place.
  const std::string id = entry.id();  // NOLINT(performance-unnecessary-copy-initialization)
  if (entry.counted) --present_;
  entries_.erase(id);
  publish(id, failure);
}

Result<EntryPtr> SandboxTable::find(const std::string& id) const {
  const auto entry = entries_.find(id);
  if (entry != entries_.end()) return entry->second;
  Error error(Code::NotFound, "sandbox " + id + " does not exist");
  error.reason = "SANDBOX::NOT_FOUND";
  return Failure(std::move(error));
}

bool SandboxTable::holds(const SandboxEntry& entry) const {
  const auto current = entries_.find(entry.id());
  return current != entries_.end() && current->second.get() == &entry;
}

std::vector<std::string> SandboxTable::living() const {
  std::vector<std::string> out;
  for (const auto& [id, entry] : entries_) {
    if (entry->live) out.push_back(id);
  }
  return out;
}

void SandboxTable::set_state(SandboxEntry& entry, api::native::State state, std::string message) {
  entry.record.status.state = state;
  entry.record.status.message = std::move(message);
  if (holds(entry)) count(entry);
  publish(entry.id());
}

void SandboxTable::count(SandboxEntry& entry) {
  const api::native::State state = entry.record.status.state;
  const bool present = state != api::native::State::Exited && state != api::native::State::Failed;
  if (std::exchange(entry.counted, present) == present) return;
  present_ = present ? present_ + 1 : present_ - 1;
}

void SandboxTable::publish(const std::string& id, const std::optional<Error>& failure) {
  feed_.publish(id, failure);
  if (changed_) changed_(id);
}

}  // namespace osb::sandboxd
