#include "execd/code/code_language.h"

#include <array>

#include "base/concat.h"

namespace osb::execd {

std::string_view embedded(std::string_view name);

// The driver of a scripting language is a text that its interpreter reads from a descriptor, so that nothing has to be
// in the image and the command line stays readable.
struct CodeLanguages {
  CodeLanguages() {
    python.name_ = "python";
    python.driver_file_ = "kernel.py";
    python.programs_ = {"python3", "python"};
    python.prepare_file_ = "prepare.py";
    python.arguments_ = {"-c",
                         "exec(compile(open(5, encoding='utf-8').read(), '<opensandbox>', 'exec'), "
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

    javascript.answers_ = true;

    typescript = javascript;
    typescript.name_ = "typescript";
    typescript.arguments_.back() = "typescript";
    typescript.install_ =
        "Node.js 22.13 or newer, or Node.js 18 with the npm package typescript (npm install -g typescript)";

    go.name_ = "go";
    go.driver_file_ = "kernel.go";
    go.programs_ = {"go"};
    // `go build` reads files only.
    go.script_ = R"(umask 077
dir=$(mktemp -d "${TMPDIR:-/tmp}/opensandbox-go.XXXXXX") || exit 1
cat <&5 >"$dir/kernel.go"
export GOTOOLCHAIN="${GOTOOLCHAIN:-local}"
[ -n "$HOME$XDG_CACHE_HOME$GOCACHE" ] || export GOCACHE="$dir/cache"
if GOFLAGS= go build -o "$dir/kernel" "$dir/kernel.go"; then exec "$dir/kernel" "$dir"; fi
rm -rf "$dir"
exit 1)";
    go.install_ = "Go 1.18 or newer (Debian: apt-get install golang-go)";

    java.name_ = "java";
    java.driver_file_ = "kernel.java";
    java.programs_ = {"java"};
    // A collector that starts fast and has no threads; no file in /tmp. The optimising compiler takes code that runs
    // ten times as often as usual: else it is busy with JShell's own code for a third of the start. Descriptors by
    // number; the driver as source, which takes half of the start, or as the class that an earlier process made of it.
    java.arguments_ = {"-XX:+UseSerialGC",
                       "-XX:-UsePerfData",
                       "-XX:Tier4InvocationThreshold=50000",
                       "-XX:Tier4MinInvocationThreshold=6000",
                       "-XX:Tier4CompileThreshold=150000",
                       "-XX:Tier4BackEdgeThreshold=400000",
                       "--add-opens",
                       "java.base/java.io=ALL-UNNAMED"};
    java.from_text_ = {"--source", "11", "/proc/self/fd/5", "hand-over"};
    java.compiled_file_ = "OpenSandboxKernel.class";
    java.run_settings_ = false;
    java.install_ = "a JDK, version 11 or newer (Debian: apt-get install default-jdk-headless)";

    csharp.name_ = "csharp";
    csharp.driver_file_ = "kernel.cs";
    csharp.programs_ = {"mcs", "dotnet"};
    // The compilers read files only. .NET's is run without a project: that would want packages from the network.
    csharp.script_ = R"(umask 077
dir=$(mktemp -d "${TMPDIR:-/tmp}/opensandbox-csharp.XXXXXX") || exit 1
cat <&5 >"$dir/kernel.cs"
if command -v mcs >/dev/null && command -v mono >/dev/null; then
  mcs -nologo -out:"$dir/kernel.exe" -r:Mono.CSharp.dll -r:Mono.Posix.dll "$dir/kernel.cs" >&2 &&
    exec mono "$dir/kernel.exe" "$dir"
else
  export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
  roslyn=$(dotnet --list-sdks | sed -n 's/^\([^ ]*\) \[\(.*\)\]$/\2\/\1\/Roslyn\/bincore/p' | tail -n 1)
  runtime=$(dotnet --list-runtimes | sed -n 's/^Microsoft.NETCore.App \([^ ]*\) \[\(.*\)\]$/\2\/\1/p' | tail -n 1)
  cp "$roslyn"/Microsoft.CodeAnalysis.dll "$roslyn"/Microsoft.CodeAnalysis.CSharp.dll "$dir"
  { echo "-nologo -nostdlib -nowarn:1702 -define:ROSLYN -out:$dir/kernel.dll $dir/kernel.cs"
    for each in "$runtime"/*.dll "$dir"/Microsoft.CodeAnalysis*.dll; do echo "-r:$each"; done; } >"$dir/arguments"
  echo '{"runtimeOptions":{"framework":{"name":"Microsoft.NETCore.App","version":"'"${runtime##*/}"'"}}}' \
    >"$dir/kernel.runtimeconfig.json"
  dotnet exec "$roslyn/csc.dll" -noconfig "@$dir/arguments" >&2 && exec dotnet exec "$dir/kernel.dll" "$dir"
fi
rm -rf "$dir"
exit 1)";
    csharp.install_ =
        "Mono with its compiler (Debian: apt-get install mono-mcs mono-csharp-shell) or the .NET SDK, 3.1 or newer";
  }
  std::array<const CodeLanguage*, 7> all() const {
    return {&bash, &csharp, &go, &java, &javascript, &python, &typescript};
  }

  CodeLanguage python;
  CodeLanguage bash;
  CodeLanguage go;
  CodeLanguage java;
  CodeLanguage csharp;
  CodeLanguage javascript;
  CodeLanguage typescript;
};

namespace {

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

const CodeLanguages& languages() {
  static const CodeLanguages known;
  return known;
}

}  // namespace

const CodeLanguage* CodeLanguage::find(std::string_view name) {
  for (const CodeLanguage* language : languages().all()) {
    if (language->name_ == name) return language;
  }
  return nullptr;
}

std::string CodeLanguage::names() {
  std::string out;
  for (const CodeLanguage* language : languages().all()) out += concat(out.empty() ? "" : ", ", language->name_);
  return out;
}

std::string_view CodeLanguage::driver() const { return embedded(driver_file_); }

std::string CodeLanguage::prepared_driver() const { return concat(embedded(prepare_file_), driver()); }

Result<void> CodeLanguage::set_program(const Environment& env, sys::SpawnPlan& plan) const {
  const auto path = env.find("PATH");
  for (const std::string_view candidate : programs_) {
    const auto program = sys::find_program(std::string(candidate), path == env.end() ? "" : path->second);
    if (!program) continue;
    plan.program = script_.empty() ? *program : "/bin/sh";
    plan.argv = script_.empty() ? std::vector{std::string(candidate)} : std::vector<std::string>{"sh", "-c", script_};
    for (const std::string_view argument : arguments_) plan.argv.emplace_back(argument);
    for (const std::string_view argument : from_text_) plan.argv.emplace_back(argument);
    return {};
  }
  return fail(Code::Unsupported, concat("code in ", name_, " cannot run here: no ", programs_.front(),
                                        " in PATH. Install ", install_, " in the image."));
}

void CodeLanguage::start_compiled(const Environment& env, sys::SpawnPlan& plan) const {
  plan.argv.resize(plan.argv.size() - from_text_.size());
  // The class path of the code is in the variable, which -cp would hide.
  const auto path = env.find("CLASSPATH");
  const bool has_path = path != env.end() && !path->second.empty();
  plan.argv.insert(plan.argv.end(),
                   {"-cp", concat("/proc/self/fd/5", has_path ? ":" : "", has_path ? path->second : ""),
                    std::string(compiled_file_.substr(0, compiled_file_.find('.')))});
}

// For a shell a command, for others their settings: the directory and KEY=VALUE, each with a NUL behind it.
std::string CodeLanguage::code_head(const RunSettings& settings) const {
  if (settings.empty()) return {};
  std::vector<std::string> words{settings.directory};
  for (const auto& [name, value] : settings.envs) words.push_back(concat(name, "=", value));
  std::string out = shell_ ? "__opensandbox_enter" : "";
  for (const std::string& word : words) {
    out += shell_ ? concat(" ", shell_quoted(word)) : concat(word, std::string_view("\0", 1));
  }
  return shell_ ? out + "; " : out;
}

std::string CodeLanguage::run_request(std::uint64_t run, std::size_t head, std::uint64_t interrupts) const {
  if (!shell_) return concat("run ", run, " ", head, " ", interrupts, "\n");
  // Two lines: an interrupt, and an error that a shell does not survive otherwise, end the first one only.
  return concat("__opensandbox started ", run, "; builtin eval \"$(<\"/proc/$$/fd/4\")\" </dev/null 3>&- 4<&-\n",
                end_request(run));
}

std::string CodeLanguage::end_request(std::uint64_t run) const {
  return concat("__opensandbox done ", run, " $?; __opensandbox_leave\n");
}

}  // namespace osb::execd
