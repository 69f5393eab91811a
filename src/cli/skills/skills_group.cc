#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/skills/target.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};
constexpr std::string_view kScopes[] = {"project", "global"};

std::vector<std::string> skill_names() {
  std::vector<std::string> out;
  for (const Skill& skill : all_skills()) out.emplace_back(skill.slug);
  return out;
}

std::vector<std::string> target_names(bool with_all) {
  std::vector<std::string> out;
  for (const SkillTarget& target : all_targets()) out.emplace_back(target.name);
  if (with_all) out.emplace_back("all");
  return out;
}

std::filesystem::path base_of(const CommandIo& context, std::string_view scope) {
  return scope == "project" ? "" : context.environment()("HOME").value_or("/");
}

json::value to_json(const std::optional<std::string>& text) { return text ? json::value(*text) : json::value(nullptr); }

Outcome list(CommandIo& context) {
  json::array skills, targets;
  std::string text = "Bundled skills:\n\n";
  for (const Skill& skill : all_skills()) {
    skills.push_back({{"slug", skill.slug},
                      {"package_file", skill.package_file},
                      {"title", skill.title},
                      {"summary", skill.summary},
                      {"trigger_hint", skill.trigger_hint},
                      {"marker_id", skill.marker_id()},
                      {"area", skill.area},
                      {"source_path", "osb:" + std::string(skill.package_file)}});
    text +=
        fmt::format("  {:<24}  [{}] {}\n  {:<24}  {}\n", skill.slug, skill.area, skill.summary, "", skill.trigger_hint);
  }
  text += "\nSupported targets:\n\n";
  for (const SkillTarget& target : all_targets()) {
    for (const std::string_view scope : kScopes) {
      const auto base = base_of(context, scope);
      json::array rows;
      text +=
          fmt::format("  {:<10}  {:<8}  {:<15}  {}\n", target.name, scope, target.label, skill_layout(target, base));
      for (const Skill& skill : all_skills()) {
        const std::string_view status = is_installed(target, base, skill) ? "installed" : "not installed";
        rows.push_back(
            {{"skill", skill.slug}, {"status", status}, {"path", skill_path(target, base, skill.slug).string()}});
        if (status == "installed") text += fmt::format("  {:<24}  {}: installed\n", "", skill.slug);
      }
      targets.push_back({{"target", target.name},
                         {"scope", scope},
                         {"label", target.label},
                         {"layout", skill_layout(target, base)},
                         {"skills", std::move(rows)}});
    }
  }
  if (context.out().structured()) {
    context.out().data(json::object{{"skills", std::move(skills)}, {"targets", std::move(targets)}});
  } else {
    context.out().text(text);
  }
  return 0;
}

Outcome show(CommandIo& context, const Skill& skill) {
  const std::string_view body = skill_body(skill.markdown());
  const auto when = skill_section(body, "When To Use");
  const auto quick = skill_section(body, "Quick Start");
  std::optional<std::string> shapes;
  if (const auto from = body.find("```json\n"); from != std::string_view::npos) {
    const auto end = body.find("```", from + 8);
    if (end != std::string_view::npos) shapes = std::string(body.substr(from + 8, end - from - 9));
  }
  std::string content(skill.markdown());
  while (content.ends_with('\n')) content.pop_back();
  if (context.out().structured()) {
    context.out().data(json::object{{"skill", skill.slug},
                                    {"title", skill.title},
                                    {"area", skill.area},
                                    {"summary", skill.summary},
                                    {"trigger_hint", skill.trigger_hint},
                                    {"when_to_use", to_json(when)},
                                    {"quick_start", to_json(quick)},
                                    {"json_shapes", to_json(shapes)},
                                    {"content", content}});
    return 0;
  }
  context.out().text(fmt::format("Skill: {}\nTitle: {}\nArea: {}\nSummary: {}\nTrigger: {}\n\n{}\n", skill.slug,
                                 skill.title, skill.area, skill.summary, skill.trigger_hint, content));
  return 0;
}

struct Options {
  std::string skill, target, scope;
  bool all = false, force = false;
};

std::string guidance() {
  return "Example: 'osb skills install file-operations --target codex --scope project'; 'osb skills list' shows all "
         "skills, targets and scopes.";
}

Expected<void> check(const Options& o) {
  if (o.all && !o.skill.empty()) return usage_error("Pass either a skill name or --all-builtins, not both.");
  if (o.target.empty()) return usage_error("Missing required option '--target'.", guidance());
  if (o.scope.empty()) return usage_error("Missing required option '--scope'.", guidance());
  if (!o.all && o.skill.empty()) {
    return usage_error("A skill name is required unless --all-builtins is used.", guidance());
  }
  return {};
}

using Change = Expected<std::string> (*)(const SkillTarget&, const std::filesystem::path&, const Skill&);

Outcome change(CommandIo& context, const Options& o, Change run) {
  if (auto fine = check(o); !fine) return failed(fine.error());
  const auto base = base_of(context, o.scope);
  json::array operations;
  std::string text;
  for (const Skill& skill : all_skills()) {
    if (!o.all && skill.slug != o.skill) continue;
    for (const SkillTarget& target : all_targets()) {
      if (o.target != "all" && target.name != o.target) continue;
      auto status = run(target, base, skill);
      if (!status) return failed(status.error());
      const std::string path = skill_path(target, base, skill.slug).string();
      text += fmt::format("  {:<15} {} [{}]: {} -> {}\n", *status, target.label, o.scope, skill.slug, path);
      operations.push_back({{"skill", skill.slug},
                            {"target", target.name},
                            {"target_label", target.label},
                            {"scope", o.scope},
                            {"path", path},
                            {"status", *status},
                            {"requires_restart", true}});
    }
  }
  if (context.out().structured()) {
    context.out().data(json::object{{"operations", std::move(operations)}, {"requires_restart", true}});
  } else {
    context.out().text(text + "\nRestart your coding tool to let it see the change.\n");
  }
  return 0;
}

void add_place_options(Command& command, Options& o) {
  command.option("-t,--target", "TEXT", "Tool to change.", o.target).choices(target_names(true));
  command.option("--scope", "TEXT", "This project, or your home directory.", o.scope).choices({"project", "global"});
}

}  // namespace

void add_skills_group(Command& root, CommandIo& context) {
  Command& group = root.command("skills", "Guides to OpenSandbox for coding tools.").without_config();
  group.details(
      "List them with 'osb skills list', read one with 'osb skills show NAME', install with\n"
      "'osb skills install NAME --target codex --scope project'.");
  Command& listing = group.command("list", "List skills, targets and installed skills.");
  listing.formats(kFormats);
  listing.action([&context] { return list(context); });

  Command& showing = group.command("show", "Show a skill.");
  Options& s = showing.values<Options>();
  showing.argument("SKILL_NAME", s.skill).choices(skill_names());
  showing.formats(kFormats);
  showing.action([&context, &s] { return show(context, *find_skill(s.skill)); });

  Command& installing = group.command("install", "Install skills. Never asks; may be repeated.");
  Options& i = installing.values<Options>();
  installing.argument("SKILL_NAME", i.skill).choices(skill_names()).optional();
  installing.flag("--all-builtins", "All of them.", i.all);
  add_place_options(installing, i);
  installing.flag("-f,--force", "Accepted; has no effect.", i.force);
  installing.formats(kFormats);
  installing.action([&context, &i] { return change(context, i, install_skill); });

  Command& removing = group.command("uninstall", "Remove a skill (default: sandbox-troubleshooting).");
  Options& u = removing.values<Options>();
  u.skill = "sandbox-troubleshooting";
  removing.argument("SKILL_NAME", u.skill).choices(skill_names()).optional();
  add_place_options(removing, u);
  removing.formats(kFormats);
  removing.action([&context, &u] { return change(context, u, uninstall_skill); });
}

}  // namespace osb::cli
