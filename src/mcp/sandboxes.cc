#include "mcp/sandboxes.h"

#include <algorithm>

namespace osb::mcp {

void Sandboxes::add(const sdk::Sandbox& sandbox, bool created) {
  const auto [entry, added] = entries_.try_emplace(sandbox.id(), Entry{sandbox, created, {}});
  if (added) ++version_;
  entry->second.created |= created;
}

std::optional<sdk::Sandbox> Sandboxes::find(const std::string& id) const {
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return std::nullopt;
  return entry->second.sandbox;
}

void Sandboxes::remove(const std::string& id) {
  if (entries_.erase(id) > 0) ++version_;
  kept_output_.forget_sandbox(id);
}

std::vector<std::string> Sandboxes::ids() const {
  std::vector<std::string> out;
  for (const auto& [id, entry] : entries_) out.push_back(id);
  return out;
}

std::vector<sdk::Sandbox> Sandboxes::take_created() {
  std::vector<sdk::Sandbox> out;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (!entry->second.created) {
      ++entry;
      continue;
    }
    out.push_back(entry->second.sandbox);
    entry = entries_.erase(entry);
    ++version_;
  }
  return out;
}

void Sandboxes::note_file(const std::string& id, const std::string& path) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || !path.starts_with('/')) return;
  auto& files = entry->second.files;
  files.insert_or_assign(path, ++version_);
  if (files.size() <= kMostFiles) return;
  files.erase(std::ranges::min_element(files, {}, [](const auto& each) { return each.second; }));
}

bool Sandboxes::forget_file(const std::string& id, const std::string& path) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.files.erase(path) == 0) return false;
  ++version_;
  return true;
}

void Sandboxes::forget_directory(const std::string& id, const std::string& path) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return;
  const std::string below = path.ends_with('/') ? path : path + '/';
  const auto gone = [&](const auto& file) { return file.first.starts_with(below); };
  if (std::erase_if(entry->second.files, gone) > 0) ++version_;
}

std::vector<Sandboxes::File> Sandboxes::files() const {
  std::vector<File> out;
  for (const auto& [id, entry] : entries_) {
    out.push_back({id, "/"});
    for (const auto& [path, when] : entry.files) out.push_back({id, path});
  }
  return out;
}

}  // namespace osb::mcp
