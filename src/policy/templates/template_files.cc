#include "policy/templates/template_files.h"

namespace osb::policy {

std::string template_name_of(std::string_view path) {
  if (const auto slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path.ends_with(".toml")) path.remove_suffix(5);
  return std::string(path);
}

Result<TemplateSet> make_template_set(const std::vector<PolicyFile>& files) {
  TemplateSet out;
  for (const PolicyFile& file : files) {
    if (file.name == kCatalogueFile) {
      auto catalogue = Catalogue::parse(file.text, file.name, Catalogue::builtin());
      if (!catalogue) return Failure(catalogue.error());
      out.catalogue = std::move(*catalogue);
      continue;
    }
    auto one = parse_template(file.text, file.name, template_name_of(file.name));
    if (!one) return Failure(one.error());
    if (auto added = out.add(std::move(*one)); !added) return Failure(added.error());
  }
  return out;
}

Result<std::map<std::string, CompiledTemplate, std::less<>>> compile_all(const TemplateSet& set) {
  std::map<std::string, CompiledTemplate, std::less<>> out;
  for (const auto& [name, one] : set.templates) {
    auto compiled = compile_template(set, name);
    if (!compiled) return Failure(compiled.error());
    out.emplace(name, std::move(*compiled));
  }
  return out;
}

}  // namespace osb::policy
