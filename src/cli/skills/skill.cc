#include "cli/skills/skill.h"

#include <array>

#include "base/text.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

constexpr std::array<Skill, 6> kSkills = {{
    {"sandbox-troubleshooting", "opensandbox-sandbox-troubleshooting.md", "OpenSandbox Sandbox Troubleshooting",
     "Find out why a sandbox does not start, does not answer or ended, and what to do about it.",
     "Use when a sandbox is stuck, failed, unhealthy, out of memory or cannot be reached.", "Troubleshooting"},
    {"sandbox-lifecycle", "opensandbox-sandbox-lifecycle.md", "OpenSandbox Sandbox Lifecycle",
     "Create, list, inspect, renew, pause, resume, snapshot and end sandboxes.",
     "Use when a sandbox is to be made, kept alive, stopped for a while or removed.", "Lifecycle"},
    {"command-execution", "opensandbox-command-execution.md", "OpenSandbox Command Execution",
     "Run commands in a sandbox: in the foreground, in the background and in sessions that keep state.",
     "Use when something is to be executed in a sandbox, watched, interrupted or continued.", "Execution"},
    {"file-operations", "opensandbox-file-operations.md", "OpenSandbox File Operations",
     "Read, write, copy, search and change files of a sandbox.",
     "Use when files are to be moved into, out of or around in a sandbox.", "Files"},
    {"network-egress", "opensandbox-network-egress.md", "OpenSandbox Network Egress",
     "See and change which hosts a sandbox may reach.",
     "Use when a sandbox must be kept from the network, or a download in it is refused.", "Network"},
    {"credential-vault", "opensandbox-credential-vault.md", "OpenSandbox Credential Vault",
     "Let a sandbox use secrets that it never sees.",
     "Use when a program in a sandbox needs a token for an outside service.", "General"},
}};

std::string begin_of(const Skill& skill) { return "<!-- BEGIN " + skill.marker_id() + " -->"; }
std::string end_of(const Skill& skill) { return "<!-- END " + skill.marker_id() + " -->"; }

int heading_level(std::string_view line) { return line.starts_with("## ") ? 2 : line.starts_with("### ") ? 3 : 0; }

}  // namespace

std::span<const Skill> all_skills() { return kSkills; }

const Skill* find_skill(std::string_view slug) {
  for (const Skill& skill : kSkills) {
    if (equals_ignoring_case(skill.slug, slug)) return &skill;
  }
  return nullptr;
}

std::string_view skill_body(std::string_view markdown) {
  if (!markdown.starts_with("---\n")) return markdown;
  const auto end = markdown.find("\n---\n", 4);
  return end == std::string_view::npos ? markdown : markdown.substr(end + 5);
}

std::optional<std::string> skill_section(std::string_view body, std::string_view heading) {
  std::string out;
  int level = 0;  // of the heading that was found; 0 before it
  bool over = false;
  sys::for_each_line(body, [&](std::string_view line) {
    const int here = heading_level(line);
    if (level != 0 && here != 0 && here <= level) over = true;
    if (over) return;
    if (level != 0) out.append(line).append("\n");
    if (level == 0 && here != 0 && line.substr(static_cast<std::size_t>(here) + 1) == heading) level = here;
  });
  const std::string_view text = trimmed(out);
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::string without_front_matter(const Skill& skill) {
  return "# " + std::string(skill.title) + "\n\n" + std::string(skill.summary) + "\n\n" +
         std::string(trimmed(skill_body(skill.markdown()))) + "\n";
}

std::string marked_block(const Skill& skill, std::string_view content) {
  return begin_of(skill) + "\n" + std::string(trimmed(content)) + "\n" + end_of(skill) + "\n";
}

std::string remove_marked_block(std::string_view text, const Skill& skill) {
  const auto from = text.find(begin_of(skill));
  const auto to = text.find(end_of(skill));
  if (from == std::string_view::npos || to == std::string_view::npos || to < from) return std::string(text);
  std::string_view before = text.substr(0, from), after = text.substr(to + end_of(skill).size());
  while (before.ends_with('\n')) before.remove_suffix(1);
  while (after.starts_with('\n')) after.remove_prefix(1);
  return std::string(before) + (before.empty() || after.empty() ? "" : "\n\n") + std::string(after);
}

}  // namespace osb::cli
