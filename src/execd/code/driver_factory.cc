#include "execd/code/driver_factory.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "base/concat.h"
#include "execd/code/driver_runner.h"

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
  return DriverRunner::start(host_, language_, std::move(process), prepared_.get());
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
