#include "execd/code/driver_factory.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "base/base64.h"
#include "base/concat.h"
#include "execd/code/driver_runner.h"
#include "execd/code/one_file_archive.h"

namespace osb::execd {

DriverFactory::DriverFactory(RunHost& host, const CommandEnvironment& environment, const CodeLanguage& language)
    : host_(host), environment_(environment), language_(language) {
  if (language.has_prepared_driver()) prepared_ = std::make_shared<PreparedKernel>(host, environment, language);
}

Result<std::shared_ptr<CodeRunner>> DriverFactory::start(const Settings& settings) {
  const Environment env = environment_.for_command(settings.envs);
  sys::SpawnPlan process;
  process.cwd = settings.directory;
  process.env = to_environ(env);
  if (auto found = language_.set_program(env, process); !found) return Failure(found.error());
  DriverRunner::Start start{std::move(process), language_.driver(), prepared_.get(), {}};
  if (compiled_ && compiled_->program == start.process.program) {
    language_.start_compiled(env, start.process);
    start.driver = compiled_->archive;
    start.on_ready = [this](const auto* data) {
      if (data == nullptr) compiled_.reset();
    };
  } else if (!language_.compiled_file().empty() && settings.envs.empty()) {
    // Variables of a context (JAVA_TOOL_OPTIONS) can run its code before the process is ready: others must not run
    // that.
    start.on_ready = [this, program = start.process.program](const auto* data) {
      if (data != nullptr) keep_compiled(program, *data);
    };
  }
  return DriverRunner::start(host_, language_, std::move(start));
}

void DriverFactory::keep_compiled(const std::string& program, const std::map<std::string, std::string>& data) {
  const auto file = data.find(std::string(language_.compiled_file()));
  if (file == data.end()) return;
  if (const auto content = decode_base64(file->second)) {
    compiled_ = {program, one_file_archive(language_.compiled_file(), *content)};
  }
}

Result<void> DriverFactory::takes(const RunSettings& settings) const {
  if (settings.empty() || language_.takes_run_settings()) return {};
  return fail(Code::InvalidRequest, concat("/cwd and /envs: a ", language_.name(), " process cannot change its ",
                                           "directory or variables; give them to a context of their own"));
}

void DriverFactory::run_ended() {
  // Behind the last event of this run, which is on its way to the reader.
  if (prepared_) net::post(host_.executor(), [prepared = prepared_] { prepared->start(); });
}

net::awaitable<void> DriverFactory::end() {
  if (prepared_) co_await prepared_->end();
}

}  // namespace osb::execd
