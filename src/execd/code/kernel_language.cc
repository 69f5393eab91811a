#include "execd/code/kernel_language.h"

#include <array>

#include "base/concat.h"

namespace osb::execd {

std::string_view embedded(std::string_view name);

// The driver of a scripting language is a text that its interpreter reads from a descriptor, so that nothing has to be
// in the image and the command line stays readable.
struct KernelLanguages {
  KernelLanguages() {
    python.name_ = "python";
    python.driver_file_ = "kernel.py";
    python.programs_ = {"python3", "python"};
    python.arguments_ = {"-c",
                         "import os; exec(compile(os.fdopen(5).read(), '<opensandbox>', 'exec'), "
                         "{'__name__': 'opensandbox_kernel'})"};
    python.install_ = "Python 3.8 or newer (Debian: apt-get install python3)";
  }
  std::array<const KernelLanguage*, 1> all() const { return {&python}; }

  KernelLanguage python;
};

namespace {

const KernelLanguages& languages() {
  static const KernelLanguages known;
  return known;
}

}  // namespace

const KernelLanguage* KernelLanguage::find(std::string_view name) {
  for (const KernelLanguage* language : languages().all()) {
    if (language->name_ == name) return language;
  }
  return nullptr;
}

std::string KernelLanguage::names() {
  std::string out;
  for (const KernelLanguage* language : languages().all()) out += concat(out.empty() ? "" : ", ", language->name_);
  return out;
}

std::string_view KernelLanguage::driver() const { return embedded(driver_file_); }

Result<void> KernelLanguage::set_program(const Environment& env, sys::SpawnPlan& plan) const {
  const auto path = env.find("PATH");
  for (const std::string_view candidate : programs_) {
    const auto program = sys::find_program(std::string(candidate), path == env.end() ? "" : path->second);
    if (!program) continue;
    plan.program = *program;
    plan.argv = {std::string(candidate)};
    for (const std::string_view argument : arguments_) plan.argv.emplace_back(argument);
    return {};
  }
  return fail(Code::Unsupported, concat("code in ", name_, " cannot run here: no ", programs_.front(),
                                        " in PATH. Install ", install_, " in the image."));
}

std::string KernelLanguage::run_request(std::uint64_t run) const { return concat("run ", run, "\n"); }

}  // namespace osb::execd
