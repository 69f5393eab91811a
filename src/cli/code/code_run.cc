#include "cli/code/code_run.h"

#include <filesystem>

namespace osb::cli {
namespace {

using opensandbox::ExecutionEvent;

// A link that terminals open, and the plain path elsewhere.
std::string link_to(const std::filesystem::path& picture, const Sink& sink) {
  std::string path = std::filesystem::absolute(picture).string();
  if (!sink.terminal) return path;
  return "\033]8;;file://" + path + "\033\\" + path + "\033]8;;\033\\";
}

// The output of a run, shown as it comes or kept for one document at the end.
class ShownCode {
 public:
  ShownCode(CommandIo& context, Pictures& pictures)
      : context_(context), structured_(context.out().structured()), pictures_(pictures) {}

  bool take(const ExecutionEvent& event) {
    if (event.type == ExecutionEvent::Type::Result && !problem_) show(event.results);
    return !problem_;
  }

  Outcome finish(RemoteRun& remote, const opensandbox::Result<opensandbox::Execution>& run) {
    if (problem_) return failed(*problem_);
    if (!run || !run->complete || (run->error && remote.interrupted())) return remote.finish(run);
    if (structured_) {
      context_.out().data(document(*run));
    } else if (run->error) {
      context_.out().error_text(text_of(*run->error));
    }
    return run->error ? 1 : 0;
  }

 private:
  void show(const opensandbox::StringMap& result) {
    const auto picture = pictures_.save(result);
    if (!picture) {
      problem_ = picture.error();
      return;
    }
    if (structured_) return;
    if (*picture) return context_.out().error_text("picture: " + link_to(**picture, context_.out().err()) + "\n");
    const auto text = result.find("text/plain");
    if (text != result.end()) context_.out().text(text->second + "\n");
    context_.out().flush();
  }

  static std::string text_of(const ExecutionEvent::ErrorInfo& error) {
    std::string out;
    for (const std::string& line : error.traceback) out += line.ends_with('\n') ? line : line + "\n";
    if (out.empty()) out = error.name + ": " + error.value + "\n";
    return out;
  }

  json::object document(const opensandbox::Execution& run) const {
    json::array results, files;
    for (const opensandbox::StringMap& each : run.results) results.push_back(to_object(each));
    for (const auto& path : pictures_.saved()) files.emplace_back(path.string());
    json::value error;
    if (run.error) {
      error = json::object{{"name", run.error->name},
                           {"value", run.error->value},
                           {"traceback", json::value_from(run.error->traceback)}};
    }
    return {{"stdout", run.stdout_text()},
            {"stderr", run.stderr_text()},
            {"results", std::move(results)},
            {"pictures", std::move(files)},
            {"error", std::move(error)}};
  }

  static json::object to_object(const opensandbox::StringMap& map) {
    json::object out;
    for (const auto& [key, value] : map) out[key] = value;
    return out;
  }

  CommandIo& context_;
  const bool structured_;
  Pictures& pictures_;
  std::optional<Problem> problem_;
};

}  // namespace

Outcome run_code(CommandIo& context, RemoteRun& remote, const opensandbox::CodeInterpreter& code,
                 const std::string& text, opensandbox::RunCodeOptions wanted, Pictures& pictures) {
  ShownCode shown(context, pictures);
  wanted.discard_output = !context.out().structured();
  auto handlers = remote.handlers(code);
  handlers.on_event = [&shown, next = std::move(handlers.on_event)](const ExecutionEvent& event) {
    return shown.take(event) && next(event);
  };
  return shown.finish(remote, code.run(text, wanted, handlers));
}

}  // namespace osb::cli
