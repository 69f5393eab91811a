#include "cli/skills/skill.h"

#include <fstream>

#include <gtest/gtest.h>

#include "cli/skills/target.h"
#include "support/temp_dir.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

TEST(Skill, EveryTextIsWhole) {
  for (const Skill& skill : all_skills()) {
    const std::string_view text = skill.markdown();
    EXPECT_TRUE(text.starts_with("---\nname: " + std::string(skill.slug) + "\ndescription: ")) << skill.slug;
    const std::string_view body = skill_body(text);
    EXPECT_TRUE(skill_section(body, "When To Use")) << skill.slug;
    EXPECT_TRUE(skill_section(body, "Quick Start")) << skill.slug;
    EXPECT_NE(body.find("```json\n"), std::string_view::npos) << skill.slug;
  }
}

TEST(Skill, SectionsEndAtTheNextHeadingOfTheirLevel) {
  const std::string_view body = "# T\n## A\none\n### B\ntwo\n## C\nthree\n";
  EXPECT_EQ(skill_section(body, "A"), "one\n### B\ntwo");
  EXPECT_EQ(skill_section(body, "B"), "two");
  EXPECT_EQ(skill_section(body, "D"), std::nullopt);
}

TEST(Skill, InstallsAndRemovesWithoutTouchingOtherText) {
  const testing::TempDir home;
  const Skill& first = all_skills()[0];
  const Skill& second = all_skills()[1];
  for (const SkillTarget& target : all_targets()) {
    const auto path = skill_path(target, home.path(), first.slug);
    EXPECT_FALSE(is_installed(target, home.path(), first));
    EXPECT_EQ(install_skill(target, home.path(), first), "installed") << target.name;
    EXPECT_EQ(install_skill(target, home.path(), first), "already_present") << target.name;
    EXPECT_TRUE(is_installed(target, home.path(), first));
    EXPECT_EQ(install_skill(target, home.path(), second), "installed") << target.name;
    const auto text = sys::read_text(path.string());
    ASSERT_TRUE(text);
    EXPECT_EQ(text->starts_with("---\n"), target.front_matter != SkillTarget::FrontMatter::None) << target.name;
    EXPECT_EQ(uninstall_skill(target, home.path(), first), "removed") << target.name;
    EXPECT_EQ(uninstall_skill(target, home.path(), first), "not_installed") << target.name;
    EXPECT_TRUE(is_installed(target, home.path(), second)) << target.name;
    EXPECT_EQ(uninstall_skill(target, home.path(), second), "removed") << target.name;
    EXPECT_FALSE(std::filesystem::exists(path)) << target.name;
  }
}

TEST(Skill, ClaudeCodeFindsASkillInItsOwnDirectory) {
  const testing::TempDir home;
  const Skill& skill = all_skills()[0];
  const SkillTarget& claude = *find_target("claude");
  EXPECT_EQ(skill_path(claude, "", skill.slug), ".claude/skills/" + std::string(skill.slug) + "/SKILL.md");
  const auto old = home.path() / ".claude/skills" / (std::string(skill.slug) + ".md");
  std::filesystem::create_directories(old.parent_path());
  const auto write_old = [&](std::string_view text) { std::ofstream(old) << text; };
  write_old(skill.markdown());
  EXPECT_FALSE(is_installed(claude, home.path(), skill));
  EXPECT_EQ(install_skill(claude, home.path(), skill), "installed");
  EXPECT_FALSE(std::filesystem::exists(old)) << "Claude Code never read it";
  write_old("# mine\n");
  EXPECT_EQ(uninstall_skill(claude, home.path(), skill), "removed");
  EXPECT_TRUE(std::filesystem::exists(old)) << "osb did not write it";
}

TEST(Skill, BlocksOfASharedFileAreReplacedInPlace) {
  const Skill& skill = all_skills()[0];
  const std::string block = marked_block(skill, "text");
  EXPECT_EQ(remove_marked_block("mine\n\n" + block + "\nyours\n", skill), "mine\n\nyours\n");
  EXPECT_EQ(remove_marked_block(block, skill), "");
  EXPECT_EQ(remove_marked_block("mine\n", skill), "mine\n");
}

}  // namespace
}  // namespace osb::cli
