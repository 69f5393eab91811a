#include "server/policies/policy_library.h"

#include "sys/text_files.h"

namespace osb::server {
namespace {

Result<std::vector<policy::PolicyFile>> read_files(const std::filesystem::path& directory) {
  std::vector<policy::PolicyFile> out;
  if (directory.empty()) return out;
  auto files = sys::read_text_files(directory, ".toml");
  if (!files) return Failure(files.error());
  for (sys::TextFile& file : *files) out.push_back({std::move(file.name), std::move(file.text)});
  return out;
}

bool same(const std::vector<policy::PolicyFile>& a, const std::vector<policy::PolicyFile>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return x.name == y.name && x.text == y.text; });
}

}  // namespace

const PolicyLibrary& PolicyLibrary::none() {
  static const PolicyLibrary kNone;
  return kNone;
}

Result<PolicyLibrary> PolicyLibrary::open(Options options) {
  PolicyLibrary out;
  if (auto loaded = out.reload(std::move(options)); !loaded) return Failure(loaded.error());
  return out;
}

Result<bool> PolicyLibrary::reload(Options options) {
  auto files = read_files(options.directory);
  if (!files) return with_context("[policies] directory", files.error());
  const bool changed = !same(*files, files_) || options.default_template != options_.default_template;
  auto set = policy::make_template_set(*files);
  if (!set) return with_context(options.directory, set.error());
  auto templates = policy::compile_all(*set);
  if (!templates) return with_context(options.directory, templates.error());
  if (const std::string& name = options.default_template; !name.empty() && !templates->contains(name)) {
    return fail(Code::InvalidRequest, "[policies] default: " + options.directory.string() + " has no template " + name +
                                          policy::did_you_mean(name, set->names()));
  }
  options_ = std::move(options);
  files_ = std::move(*files);
  set_ = std::move(*set);
  templates_ = std::move(*templates);
  return changed;
}

Result<const policy::CompiledTemplate*> PolicyLibrary::find(std::string_view name) const {
  if (const auto found = templates_.find(name); found != templates_.end()) return &found->second;
  return Failure(policy::compile_template(set_, name).error());
}

Result<policy::CompiledTemplate> PolicyLibrary::compile(std::string_view text, const std::string& source) const {
  auto one = policy::parse_template(text, source, "unnamed");
  if (!one) return Failure(one.error());
  policy::TemplateSet set = set_;
  const std::string name = one->name;
  set.templates.insert_or_assign(name, std::move(*one));
  return policy::compile_template(set, name);
}

}  // namespace osb::server
