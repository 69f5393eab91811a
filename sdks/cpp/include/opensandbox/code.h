#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/commands.h"

// Code in kernels that keep their state. Sandboxes without a code interpreter answer with an Api error.
namespace opensandbox {

namespace language {
inline constexpr std::string_view kPython = "python";
inline constexpr std::string_view kJava = "java";
inline constexpr std::string_view kGo = "go";
inline constexpr std::string_view kTypeScript = "typescript";
inline constexpr std::string_view kJavaScript = "javascript";
inline constexpr std::string_view kBash = "bash";
inline constexpr std::string_view kCSharp = "csharp";
}  // namespace language

struct CodeContext {
  std::string id = {};  // "": the language's default context
  std::string language = {};
};

struct RunCodeOptions {
  // At most one of the two; none means Python.
  std::optional<CodeContext> context = {};
  std::string language = {};
  bool discard_output = false;
  bool keep_json = false;
  // For this run only; not in the published contract.
  std::string cwd = {};
  StringMap envs = {};
  std::chrono::milliseconds timeout{0};  // then the code is interrupted; 0: the timeout of its context
};

// Of a new context; but for the language, not in the published contract.
struct CodeContextOptions {
  std::string cwd = {};  // made if it is missing
  StringMap envs = {};
  std::chrono::milliseconds timeout{0};  // of runs that have none of their own; 0: none
};

// Thread-safe.
class CodeInterpreter {
 public:
  Result<CodeContext> create_context(const std::string& language, const CodeContextOptions& options = {}) const;
  Result<CodeContext> context(const std::string& id) const;
  Result<std::vector<CodeContext>> contexts(const std::string& language) const;
  Result<void> remove_context(const std::string& id) const;
  Result<void> remove_contexts(const std::string& language) const;
  // The exit code stays empty: code has none.
  Result<Execution> run(const std::string& code, const RunCodeOptions& options = {},
                        const ExecutionHandlers& handlers = {}) const;
  Result<void> interrupt(const std::string& execution_id) const;

  explicit CodeInterpreter(std::shared_ptr<Commands::Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Commands::Impl> impl_;
};

}  // namespace opensandbox
