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

    bash.name_ = "bash";
    bash.driver_file_ = "kernel.bash";
    bash.programs_ = {"bash"};
    bash.arguments_ = {"--noprofile", "--norc", "--noediting", "-i"};
    bash.install_ = "bash (Debian: apt-get install bash)";
    bash.shell_ = true;

    javascript.name_ = "javascript";
    javascript.driver_file_ = "kernel.js";
    javascript.programs_ = {"node", "nodejs"};
    javascript.arguments_ = {"-e", "eval(require('fs').readFileSync(5, 'utf8'))", "javascript"};
    javascript.install_ = "Node.js 18 or newer (Debian: apt-get install nodejs)";

    typescript = javascript;
    typescript.name_ = "typescript";
    typescript.arguments_.back() = "typescript";
    typescript.install_ =
        "Node.js 22.13 or newer, or Node.js 18 with the npm package typescript (npm install -g typescript)";
  }
  std::array<const KernelLanguage*, 4> all() const { return {&bash, &javascript, &python, &typescript}; }

  KernelLanguage python;
  KernelLanguage bash;
  KernelLanguage javascript;
  KernelLanguage typescript;
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

std::string KernelLanguage::run_request(std::uint64_t run) const {
  if (!shell_) return concat("run ", run, "\n");
  // Two lines: an interrupt, and an error that a shell does not survive otherwise, end the first one only.
  return concat("__opensandbox started ", run, "; builtin eval \"$(<\"/proc/$$/fd/4\")\" </dev/null 3>&- 4<&-\n",
                end_request(run));
}

std::string KernelLanguage::end_request(std::uint64_t run) const { return concat("__opensandbox done ", run, " $?\n"); }

}  // namespace osb::execd
