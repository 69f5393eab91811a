#include "cli/lookup/lookup.h"

#include "cli/lookup/reference.h"

namespace osb::cli {
namespace {

constexpr int kPageSize = 200;

bool has_ended(const std::string& state) {
  return state == opensandbox::state::kFailed || state == opensandbox::state::kTerminated;
}

// A server or key that has no list at all: then the text can only be an id.
bool has_no_list(const opensandbox::Error& error) {
  return error.status == 403 || error.status == 404 || error.status == 405 || error.status == 501;
}

opensandbox::Result<std::vector<Referable>> sandboxes_like(const opensandbox::SandboxManager& manager,
                                                           const std::string& text) {
  opensandbox::ListOptions wanted;
  wanted.match = text;
  wanted.page_size = kPageSize;
  auto infos = manager.list_all(std::move(wanted));
  if (!infos) return std::unexpected(infos.error());
  std::vector<Referable> out;
  for (const auto& info : *infos) out.push_back({info.id, name_of(info), has_ended(info.status.state)});
  return out;
}

opensandbox::Result<std::vector<Referable>> snapshots_like(const opensandbox::SandboxManager& manager,
                                                           const std::string& text) {
  std::vector<Referable> out;
  opensandbox::SnapshotListOptions wanted;
  wanted.match = text;
  wanted.page_size = kPageSize;
  for (wanted.page = 1;; ++wanted.page) {
    auto page = manager.snapshots(wanted);
    if (!page) return std::unexpected(page.error());
    for (const auto& snapshot : page->items) {
      out.push_back({snapshot.id, snapshot.name, snapshot.status.state == opensandbox::state::kFailed});
    }
    if (!page->pagination.has_next_page || page->items.empty()) return out;
  }
}

opensandbox::Result<std::vector<Referable>> templates_like(const opensandbox::SandboxManager& manager,
                                                           const std::string& text) {
  auto page = manager.templates({.page_size = kPageSize, .match = text});
  if (!page) return std::unexpected(page.error());
  std::vector<Referable> out;
  for (const auto& each : page->items) out.push_back({each.id, "", each.phase == opensandbox::state::kFailed});
  return out;
}

Expected<std::string> chosen(const CommandIo& context, std::string_view kind, const std::string& given,
                             const opensandbox::Result<std::vector<Referable>>& known) {
  if (!known && has_no_list(known.error())) return given;
  if (!known) return sdk_failed(context, known.error());
  return choose_reference(kind, given, *known);
}

}  // namespace

std::string name_of(const opensandbox::SandboxInfo& info) {
  if (!info.metadata) return {};
  const auto found = info.metadata->find(kNameKey);
  return found == info.metadata->end() ? std::string() : found->second;
}

Expected<std::string> find_sandbox(const CommandIo& context, const opensandbox::SandboxManager& manager,
                                   const std::string& given) {
  if (is_whole_id(given)) return given;
  return chosen(context, "sandbox", given, sandboxes_like(manager, given));
}

Expected<std::string> find_snapshot(const CommandIo& context, const opensandbox::SandboxManager& manager,
                                    const std::string& given) {
  if (is_whole_id(given)) return given;
  return chosen(context, "snapshot", given, snapshots_like(manager, given));
}

Expected<std::string> find_template(const CommandIo& context, const opensandbox::SandboxManager& manager,
                                    const std::string& given) {
  std::string id = (given.starts_with("tpl") ? "" : "tpl-") + given;
  if (is_whole_id(std::string_view(id).substr(4)) || id.size() < 4) return id;
  return chosen(context, "template", id, templates_like(manager, id));
}

void claim_name(opensandbox::CreateOptions& create, const std::string& name) {
  create.metadata[kNameKey] = name;
  create.extensions["name.unique"] = "true";
}

Expected<void> check_free_name(const CommandIo& context, const opensandbox::SandboxManager& manager,
                               const std::string& name) {
  if (auto fine = check_name(name); !fine) return fine;
  const auto known = sandboxes_like(manager, name);
  if (!known) return sdk_failed(context, known.error());
  for (const Referable& each : *known) {
    if (each.name != name || each.ended) continue;
    return std::unexpected(Problem{"Sandbox Error", "NAME_IN_USE",
                                   "The name '" + name + "' is in use by sandbox " + each.id,
                                   "Choose another one, or remove that sandbox with: osb rm " + name});
  }
  return {};
}

}  // namespace osb::cli
