#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace osb::cli {

std::string_view embedded(std::string_view name);  // made by the build: the texts of skills/*.md

// A guide for coding assistants that osb brings along.
struct Skill {
  std::string_view slug, package_file, title, summary, trigger_hint, area;

  std::string_view markdown() const { return embedded(package_file); }
  std::string marker_id() const { return "opensandbox-" + std::string(slug); }
};

std::span<const Skill> all_skills();
const Skill* find_skill(std::string_view slug);  // any case

// The text below the front matter, and one of its sections ("## Heading" or "### Heading").
std::string_view skill_body(std::string_view markdown);
std::optional<std::string> skill_section(std::string_view body, std::string_view heading);

// How a skill looks where front matter is not understood: title and summary in its place.
std::string without_front_matter(const Skill& skill);

// A block of a file that several tools' texts share, between two HTML comments.
std::string marked_block(const Skill& skill, std::string_view content);
std::string remove_marked_block(std::string_view text, const Skill& skill);

}  // namespace osb::cli
