#include "cli/policy/local_policies.h"

#include <filesystem>

#include "policy/templates/template_files.h"
#include "sys/text_file.h"
#include "sys/text_files.h"

namespace osb::cli {
namespace {

constexpr std::size_t kMaxFile = 1 << 20;

std::unexpected<Problem> wrong(const Error& error) {
  return std::unexpected(Problem{"Policy Error", "POLICY::INVALID_TEMPLATE", error.message});
}

// Templates beside the file. A wrong one is left out: it matters only if the file extends it, and is then unknown.
Expected<policy::TemplateSet> templates_beside(const std::filesystem::path& file) {
  policy::TemplateSet out;
  std::filesystem::path directory = file.parent_path();
  if (directory.empty()) directory = ".";
  const auto found = sys::read_text_files(directory, ".toml");
  if (!found) return failed(found.error());
  for (const sys::TextFile& each : *found) {
    if (each.name == policy::kCatalogueFile) {
      auto catalogue =
          policy::Catalogue::parse(each.text, (directory / each.name).string(), policy::Catalogue::builtin());
      if (!catalogue) return wrong(catalogue.error());
      out.catalogue = std::move(*catalogue);
    } else if (each.name != file.filename()) {
      auto other =
          policy::parse_template(each.text, (directory / each.name).string(), policy::template_name_of(each.name));
      if (other) (void)out.add(std::move(*other));
    }
  }
  return out;
}

}  // namespace

bool is_policy_file(const std::string& text) { return text.ends_with(".toml") || text.find('/') != std::string::npos; }

Expected<std::string> read_policy_file(const std::string& path) {
  auto text = sys::read_text(path, kMaxFile);
  if (!text) return failed(text.error());
  return std::move(*text);
}

Expected<policy::CompiledTemplate> compile_policy_file(const std::string& path) {
  const auto text = read_policy_file(path);
  if (!text) return std::unexpected(text.error());
  auto one = policy::parse_template(*text, path, policy::template_name_of(path));
  if (!one) return wrong(one.error());
  auto set = templates_beside(path);
  if (!set) return std::unexpected(set.error());
  const std::string name = one->name;
  set->templates.insert_or_assign(name, std::move(*one));
  auto compiled = policy::compile_template(*set, name);
  if (!compiled) return wrong(compiled.error());
  return std::move(*compiled);
}

}  // namespace osb::cli
