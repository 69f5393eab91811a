#pragma once

#include <string>
#include <vector>

#include "policy/templates/compile.h"

namespace osb::policy {

struct PolicyFile {
  std::string name;  // "base.toml"; catalogue.toml extends the built-in catalogue, every other file is a template
  std::string text;
};

inline constexpr std::string_view kCatalogueFile = "catalogue.toml";

// The files of one directory. The first error is returned: one wrong file refuses all.
Result<TemplateSet> make_template_set(const std::vector<PolicyFile>& files);

// Every template of the set, compiled; the first error is returned.
Result<std::map<std::string, CompiledTemplate, std::less<>>> compile_all(const TemplateSet& set);

// "python" of "dir/python.toml".
std::string template_name_of(std::string_view path);

}  // namespace osb::policy
