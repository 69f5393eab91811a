#include <opensandbox/isolated.h>

#include "client/sync.h"

namespace opensandbox {

Result<IsolationCapabilities> IsolatedSessions::capabilities() const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().capabilities());
}
Result<IsolatedSession> IsolatedSessions::create(const IsolatedSessionOptions& options) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().create(options));
}
Result<IsolatedSession> IsolatedSessions::get(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().get(id));
}
Result<std::vector<IsolatedSession>> IsolatedSessions::list() const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().list());
}
Result<void> IsolatedSessions::remove(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().remove(id));
}

Result<Execution> IsolatedSessions::run(const std::string& id, const std::string& code,
                                        const IsolatedRunOptions& options, const ExecutionHandlers& handlers) const {
  return impl_->client.core()->run(
      [&](Caller& caller) { return impl_->sandbox.isolated().run(id, code, options, event_sink(caller, handlers)); });
}
Result<IsolatedRun> IsolatedSessions::run_background(const std::string& id, const std::string& code,
                                                     const StringMap& envs) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().run_background(id, code, envs));
}
Result<IsolatedRun> IsolatedSessions::run_status(const std::string& id, const std::string& run_id) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().run_status(id, run_id));
}
Result<CommandLogs> IsolatedSessions::run_logs(const std::string& id, const std::string& run_id,
                                               std::optional<std::int64_t> cursor) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().run_logs(id, run_id, cursor));
}

Files IsolatedSessions::files(const std::string& id) const {
  return Files(std::make_shared<Files::Impl>(Files::Impl{impl_->client, impl_->sandbox.isolated().files(id)}));
}
Result<std::uint64_t> IsolatedSessions::diff(const std::string& id, const ByteSink& sink) const {
  const Download download = [&](async::ByteSink into) { return impl_->sandbox.isolated().diff(id, std::move(into)); };
  return impl_->client.core()->run([&](Caller& caller) { return write_behind(caller, sink, download); });
}
Result<IsolatedCommit> IsolatedSessions::commit(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.isolated().commit(id));
}

}  // namespace opensandbox
