#include <opensandbox/manager.h>

#include "cli/commands.h"
#include "cli/completion/scripts.h"

namespace osb::cli {
namespace {

constexpr std::chrono::seconds kPatience(2);  // somebody has just pressed Tab
constexpr int kMost = 200;

void offer_sandboxes(const opensandbox::SandboxManager& manager, const std::string& prefix,
                     std::vector<Candidate>& out) {
  opensandbox::ListOptions wanted;
  wanted.page_size = kMost;
  const auto found = manager.list(wanted);
  if (!found) return;
  for (const auto& info : found->items) {
    if (info.id.starts_with(prefix)) out.push_back({info.id, info.status.state + " " + info.image + info.snapshot_id});
  }
}

void offer_snapshots(const opensandbox::SandboxManager& manager, const std::string& prefix,
                     std::vector<Candidate>& out) {
  opensandbox::SnapshotListOptions wanted;
  wanted.page_size = kMost;
  const auto found = manager.snapshots(wanted);
  if (!found) return;
  for (const auto& snapshot : found->items) {
    if (snapshot.id.starts_with(prefix)) out.push_back({snapshot.id, snapshot.status.state + " " + snapshot.name});
  }
}

// bash cuts "--output=json" into three words.
std::vector<std::string> rejoined(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool separator = words[i] == "=" && i > 0 && words[i - 1].starts_with("--");
    if (!separator) out.push_back(words[i]);
    if (separator && i + 1 == words.size()) out.emplace_back();
  }
  return out;
}

// Tab completion never complains: what cannot be looked up is not offered.
Outcome complete(Command& root, Context& context, const std::vector<std::string>& given) {
  const std::vector<std::string> words = rejoined(given);
  if (words.empty()) return 0;
  Completion found = root.complete(words);  // also sets the root options that stand in the line
  if (found.dynamic == Completes::Sandboxes || found.dynamic == Completes::Snapshots) {
    if (!context.load_config()) return 0;
    context.limit_request_time(kPatience);
    const auto manager = context.manager();
    if (!manager) return 0;
    if (found.dynamic == Completes::Sandboxes) offer_sandboxes(*manager, words.back(), found.words);
    if (found.dynamic == Completes::Snapshots) offer_snapshots(*manager, words.back(), found.words);
  }
  for (const Candidate& candidate : found.words) {
    context.out().text(candidate.value + (candidate.help.empty() ? "" : "\t" + candidate.help) + "\n");
  }
  if (found.dynamic == Completes::Files) context.out().text(":files\n");
  return 0;
}

}  // namespace

void add_completion(Command& root, Context& context) {
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

  Command& hidden = root.command("__complete", "What may stand in place of the last word.").hidden().without_config();
  Options& h = hidden.values<Options>();
  hidden.argument("WORDS", h.words).optional();
  hidden.action([&root, &context, &h] { return complete(root, context, h.words); });
}

}  // namespace osb::cli
