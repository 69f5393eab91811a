#include "cli/skills/target.h"

#include <array>
#include <cstring>
#include <fstream>

#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

using FrontMatter = SkillTarget::FrontMatter;

constexpr std::array<SkillTarget, 7> kTargets = {{
    {"claude", "Claude Code", ".claude/skills", "{slug}/SKILL.md", FrontMatter::Skill, "{slug}.md"},
    {"cursor", "Cursor", ".cursor/rules", "{slug}.mdc", FrontMatter::CursorRule},
    {"codex", "Codex", ".codex/skills", "{slug}/SKILL.md", FrontMatter::Skill},
    {"copilot", "GitHub Copilot", "", ".github/copilot-instructions.md"},
    {"windsurf", "Windsurf", "", ".windsurfrules"},
    {"cline", "Cline", "", ".clinerules"},
    {"opencode", "OpenCode", ".agents/skills", "{slug}/SKILL.md", FrontMatter::Skill},
}};

std::string with_slug(std::string_view pattern, std::string_view slug) {
  std::string file(pattern);
  if (const auto at = file.find("{slug}"); at != std::string::npos) file.replace(at, 6, slug);
  return file;
}

Expected<std::string> read_if_there(const fs::path& path) {
  auto text = sys::read_text(path.string());
  if (text) return *text;
  if (text.error().code == Code::NotFound) return std::string();
  return failed(text.error());
}

Expected<void> write_file(const fs::path& path, std::string_view text) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!error && file) return {};
  return invalid("Cannot write " + path.string() + ": " + (error ? error.message() : std::strerror(errno)) + ".");
}

std::string content_for(const SkillTarget& target, const Skill& skill) {
  if (target.front_matter == FrontMatter::None) return without_front_matter(skill);
  if (target.front_matter == FrontMatter::CursorRule) {
    // Cursor offers a rule to its agent only if the rule has a description.
    return "---\ndescription: " + std::string(skill.summary) + " " + std::string(skill.trigger_hint) +
           "\nalwaysApply: false\n---\n\n" + without_front_matter(skill);
  }
  std::string_view text = skill.markdown();
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text) + "\n";
}

Expected<std::string> install_copy(const fs::path& path, const std::string& content) {
  const bool there = fs::exists(path);
  auto old = read_if_there(path);
  if (!old) return failed(old.error());
  if (auto written = write_file(path, content); !written) return failed(written.error());
  return !there ? "installed" : *old == content ? "already_present" : "updated";
}

Expected<std::string> install_block(const fs::path& path, const std::string& content, const Skill& skill) {
  auto old = read_if_there(path);
  if (!old) return failed(old.error());
  std::string rest = remove_marked_block(*old, skill);
  const bool had_block = rest != *old;
  while (rest.ends_with('\n')) rest.pop_back();
  const std::string text = (rest.empty() ? "" : rest + "\n\n") + marked_block(skill, content);
  if (auto written = write_file(path, text); !written) return failed(written.error());
  return *old == text ? "already_present" : had_block ? "updated" : "installed";
}

// Older versions, and the original, wrote the skill where the tool does not look. A file that osb did not write
// stays.
bool remove_misplaced(const SkillTarget& target, const fs::path& base, const Skill& skill) {
  if (target.misplaced.empty()) return false;
  const fs::path path = base / target.directory / with_slug(target.misplaced, skill.slug);
  const auto text = read_if_there(path);
  if (!text || !text->starts_with("---\nname: " + std::string(skill.slug) + "\n")) return false;
  std::error_code error;
  return fs::remove(path, error);
}

}  // namespace

std::span<const SkillTarget> all_targets() { return kTargets; }

const SkillTarget* find_target(std::string_view name) {
  for (const SkillTarget& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

fs::path skill_path(const SkillTarget& target, const fs::path& base, std::string_view slug) {
  return base / target.directory / with_slug(target.file, slug);
}

std::string skill_layout(const SkillTarget& target, const fs::path& base) {
  const std::string path = skill_path(target, base, "<skill-name>").string();
  return target.directory.empty() ? "one block per skill in " + path : "one file per skill: " + path;
}

bool is_installed(const SkillTarget& target, const fs::path& base, const Skill& skill) {
  const fs::path path = skill_path(target, base, skill.slug);
  std::error_code error;
  if (!target.directory.empty()) return fs::exists(path, error);
  const auto text = read_if_there(path);
  return text && remove_marked_block(*text, skill) != *text;
}

Expected<std::string> install_skill(const SkillTarget& target, const fs::path& base, const Skill& skill) {
  const fs::path path = skill_path(target, base, skill.slug);
  const std::string content = content_for(target, skill);
  remove_misplaced(target, base, skill);
  return target.directory.empty() ? install_block(path, content, skill) : install_copy(path, content);
}

Expected<std::string> uninstall_skill(const SkillTarget& target, const fs::path& base, const Skill& skill) {
  const fs::path path = skill_path(target, base, skill.slug);
  const bool misplaced = remove_misplaced(target, base, skill);
  if (!is_installed(target, base, skill)) return misplaced ? "removed" : "not_installed";
  std::error_code error;
  if (!target.directory.empty()) {
    fs::remove(path, error);
    if (error) return invalid("Cannot remove " + path.string() + ": " + error.message() + ".");
    fs::remove(path.parent_path(), error);  // only when it is empty
    return "removed";
  }
  auto text = read_if_there(path);
  if (!text) return failed(text.error());
  std::string rest = remove_marked_block(*text, skill);
  while (rest.ends_with('\n')) rest.pop_back();
  if (rest.find_first_not_of(" \t\r\n") == std::string::npos) {
    fs::remove(path, error);
    if (error) return invalid("Cannot remove " + path.string() + ": " + error.message() + ".");
  } else if (auto written = write_file(path, rest + "\n"); !written) {
    return failed(written.error());
  }
  return "removed";
}

}  // namespace osb::cli
