#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "cli/problem.h"
#include "cli/skills/skill.h"

namespace osb::cli {

// A coding tool and where it looks for guides, relative to the project or to the home directory.
struct SkillTarget {
  std::string_view name, label;
  std::string_view directory;  // one file per skill below this; empty: `file` is shared
  std::string_view file;       // "{slug}" stands for the skill
  enum class FrontMatter { None, Skill, CursorRule } front_matter = FrontMatter::None;
  std::string_view misplaced = {};  // a file that was once written instead of `file`
};

std::span<const SkillTarget> all_targets();
const SkillTarget* find_target(std::string_view name);

// `base` is "" for the project, else the home directory.
std::filesystem::path skill_path(const SkillTarget& target, const std::filesystem::path& base, std::string_view slug);
std::string skill_layout(const SkillTarget& target, const std::filesystem::path& base);

bool is_installed(const SkillTarget& target, const std::filesystem::path& base, const Skill& skill);
// "installed", "updated" or "already_present".
Expected<std::string> install_skill(const SkillTarget& target, const std::filesystem::path& base, const Skill& skill);
// "removed" or "not_installed". A directory or file that would be left empty goes too.
Expected<std::string> uninstall_skill(const SkillTarget& target, const std::filesystem::path& base, const Skill& skill);

}  // namespace osb::cli
