#include <algorithm>
#include <opensandbox/manager.h>
#include <opensandbox/policies.h>

#include "base/concat.h"
#include "cli/commands.h"
#include "cli/completion/scripts.h"
#include "cli/lookup/lookup.h"
#include "cli/transfer/remote_path.h"

namespace osb::cli {
namespace {

constexpr std::chrono::seconds kPatience(2);  // a user has just pressed Tab
constexpr int kMost = 200;

// `suffix` stands behind every candidate.
void offer_sandboxes(const opensandbox::SandboxManager& manager, const std::string& prefix, const std::string& suffix,
                     std::vector<Candidate>& out) {
  opensandbox::ListOptions wanted;
  wanted.page_size = kMost;
  const auto found = manager.list(wanted);
  if (!found) return;
  for (const auto& info : found->items) {
    const std::string help = info.status.state + " " + info.image + info.snapshot_id;
    const std::string name = name_of(info);
    if (!name.empty() && name.starts_with(prefix)) out.push_back({name + suffix, help});
    // A sandbox with a name is offered by its id only if the user has begun to type the id.
    if (info.id.starts_with(prefix) && (name.empty() || !prefix.empty())) out.push_back({info.id + suffix, help});
  }
}

void offer_snapshots(const opensandbox::SandboxManager& manager, const std::string& prefix,
                     std::vector<Candidate>& out) {
  opensandbox::SnapshotListOptions wanted;
  wanted.page_size = kMost;
  const auto found = manager.snapshots(wanted);
  if (!found) return;
  for (const auto& snapshot : found->items) {
    const std::string& name = snapshot.name;
    if (!name.empty() && name.starts_with(prefix)) out.push_back({name, snapshot.status.state});
    if (snapshot.id.starts_with(prefix) && (name.empty() || !prefix.empty())) {
      out.push_back({snapshot.id, snapshot.status.state + " " + name});
    }
  }
}

void offer_images(const opensandbox::SandboxManager& manager, const std::string& prefix, std::vector<Candidate>& out) {
  constexpr std::string_view kHost = "host";
  const auto found = manager.images();
  if (found && kHost.starts_with(prefix)) out.push_back({std::string(kHost), "the server's own files"});
  if (!found) return;
  for (const auto& image : *found) {
    if (image.uri.starts_with(prefix) && image.uri != kHost) out.push_back({image.uri, ""});
  }
}

void offer_policies(const opensandbox::SandboxManager& manager, const std::string& prefix,
                    std::vector<Candidate>& out) {
  const auto found = opensandbox::Policies(manager.client()).list();
  if (!found) return;
  for (const auto& each : found->items) {
    if (each.name.starts_with(prefix)) out.push_back({each.name, each.description});
  }
}

// "web:/et" is completed with the names in the sandbox's directory, "we" with the names of sandboxes.
void offer_remote_paths(CommandIo& context, const opensandbox::SandboxManager& manager, const std::string& word,
                        std::vector<Candidate>& out) {
  const auto remote = parse_remote_path(word);
  if (!remote) return offer_sandboxes(manager, word, ":", out);
  const auto id = find_sandbox(context, manager, remote->sandbox);
  if (!id) return;
  const std::size_t slash = remote->path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : remote->path.substr(0, slash + 1);
  const std::string begun = slash == std::string::npos ? remote->path : remote->path.substr(slash + 1);
  const auto sandbox = opensandbox::Sandbox::attach(manager.client(), *id);
  const auto entries = sandbox.files().list(directory.empty() ? "." : directory, 1);
  if (!entries) return;
  for (const auto& entry : *entries) {
    const std::string name = last_part(entry.path);
    const bool hidden = name.starts_with('.') && !begun.starts_with('.');
    if (hidden || !name.starts_with(begun)) continue;
    out.push_back({concat(remote->sandbox, ":", directory, name, entry.type == "directory" ? "/" : ""), ""});
  }
}

// bash cuts "--output=json" and "web:/tmp" into three words each.
std::vector<std::string> rejoined(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ":" && !out.empty()) {
      out.back() += ":";
      if (i + 1 < words.size()) out.back() += words[++i];
      continue;
    }
    const bool separator = words[i] == "=" && i > 0 && words[i - 1].starts_with("--");
    if (!separator) out.push_back(words[i]);
    if (separator && i + 1 == words.size()) out.emplace_back();
  }
  return out;
}

void look_up(CommandIo& context, Completion& found, const std::string& word) {
  if (!context.load_config()) return;
  context.limit_request_time(kPatience);
  const auto manager = context.manager();
  if (!manager) return;
  switch (found.dynamic) {
    case Completes::Sandboxes:
      return offer_sandboxes(*manager, word, "", found.words);
    case Completes::Snapshots:
      return offer_snapshots(*manager, word, found.words);
    case Completes::Images:
      return offer_images(*manager, word, found.words);
    case Completes::RemotePaths:
      return offer_remote_paths(context, *manager, word, found.words);
    case Completes::Policies:
      return offer_policies(*manager, word, found.words);
    case Completes::Nothing:
    case Completes::Files:
      return;
  }
}

// Tab completion reports no errors: values that cannot be looked up are not offered.
Outcome complete(Command& root, CommandIo& context, const std::vector<std::string>& given) {
  const std::vector<std::string> words = rejoined(given);
  if (words.empty()) return 0;
  Completion found = root.complete(words);  // also sets the root options that stand in the line
  if (found.dynamic != Completes::Nothing && found.dynamic != Completes::Files) look_up(context, found, words.back());
  for (const Candidate& candidate : found.words) {
    context.out().text(candidate.value + (candidate.help.empty() ? "" : "\t" + candidate.help) + "\n");
  }
  const bool path_begins = found.dynamic == Completes::RemotePaths && words.back().find(':') == std::string::npos;
  const bool file_too = found.dynamic == Completes::Files || found.dynamic == Completes::Policies;
  if (file_too || path_begins) context.out().text(":files\n");
  const bool goes_on = std::ranges::any_of(
      found.words, [](const Candidate& each) { return each.value.ends_with('/') || each.value.ends_with(':'); });
  if (goes_on) context.out().text(":nospace\n");
  return 0;
}

}  // namespace

void add_completion(Command& root, CommandIo& context) {
  struct Options {
    std::string shell;
    std::vector<std::string> words;
  };
  Command& command = root.command("completion", "Print a completion script for your shell.").without_config();
  command.details(
      "bash: eval \"$(osb completion bash)\" in ~/.bashrc\n"
      "zsh: osb completion zsh > \"${fpath[1]}/_osb\", or eval \"$(osb completion zsh)\" behind compinit\n"
      "fish: osb completion fish > ~/.config/fish/completions/osb.fish");
  Options& o = command.values<Options>();
  command.argument("SHELL", o.shell).choices({"bash", "zsh", "fish"});
  command.action([&context, &o]() -> Outcome {
    context.out().text(completion_script(o.shell));
    return 0;
  });

  Command& hidden = root.command("__complete", "Completions of the last word.").hidden().without_config();
  Options& h = hidden.values<Options>();
  hidden.argument("WORDS", h.words).optional();
  hidden.action([&root, &context, &h] { return complete(root, context, h.words); });
}

}  // namespace osb::cli
