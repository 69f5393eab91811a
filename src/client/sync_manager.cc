#include <algorithm>
#include <fcntl.h>
#include <opensandbox/manager.h>

#include "client/local_file.h"
#include "client/sync.h"
#include "sys/syscall.h"

namespace opensandbox {
namespace {

async::SandboxManager on(const Client& client) { return async::SandboxManager(*client.core()->client); }

}  // namespace

Result<SandboxInfo> SandboxManager::create(const CreateOptions& options, std::chrono::seconds wait) const {
  return client_.core()->run_task(on(client_).create(options, wait));
}
Result<SandboxInfo> SandboxManager::get(const std::string& id) const {
  return client_.core()->run_task(on(client_).get(id));
}
Result<SandboxList> SandboxManager::list(const ListOptions& options) const {
  return client_.core()->run_task(on(client_).list(options));
}
Result<std::vector<SandboxInfo>> SandboxManager::list_all(ListOptions options) const {
  return client_.core()->run_task(on(client_).list_all(std::move(options)));
}
Result<void> SandboxManager::kill(const std::string& id) const {
  return client_.core()->run_task(on(client_).kill(id));
}
Result<void> SandboxManager::pause(const std::string& id) const {
  return client_.core()->run_task(on(client_).pause(id));
}
Result<void> SandboxManager::resume(const std::string& id) const {
  return client_.core()->run_task(on(client_).resume(id));
}
Result<Timestamp> SandboxManager::renew(const std::string& id, std::chrono::milliseconds timeout) const {
  return client_.core()->run_task(on(client_).renew(id, timeout));
}
Result<Timestamp> SandboxManager::renew_until(const std::string& id, Timestamp expires_at) const {
  return client_.core()->run_task(on(client_).renew_until(id, expires_at));
}
Result<SandboxInfo> SandboxManager::patch_metadata(const std::string& id, const MetadataPatch& patch) const {
  return client_.core()->run_task(on(client_).patch_metadata(id, patch));
}
Result<Endpoint> SandboxManager::endpoint(const std::string& id, int port, const EndpointOptions& options) const {
  return client_.core()->run_task(on(client_).endpoint(id, port, options));
}

Result<void> SandboxManager::watch(const std::string& id, const StateHandler& handler,
                                   std::chrono::milliseconds poll_interval) const {
  return client_.core()->run([&](Caller& caller) {
    return on(client_).watch(
        id,
        [&caller, &handler](const SandboxInfo* info) -> async::Task<bool> {
          return caller.run<bool>([&handler, info]() -> Result<bool> { return handler(info); });
        },
        poll_interval);
  });
}

Result<SandboxInfo> SandboxManager::wait_for_state(const std::string& id, const std::vector<std::string>& states,
                                                   std::chrono::milliseconds timeout) const {
  return client_.core()->run_task(on(client_).wait_for_state(id, states, timeout));
}

Result<Snapshot> SandboxManager::create_snapshot(const std::string& sandbox_id, const std::string& name) const {
  return client_.core()->run_task(on(client_).create_snapshot(sandbox_id, name));
}
Result<Snapshot> SandboxManager::snapshot(const std::string& id) const {
  return client_.core()->run_task(on(client_).snapshot(id));
}
Result<SnapshotList> SandboxManager::snapshots(const SnapshotListOptions& options) const {
  return client_.core()->run_task(on(client_).snapshots(options));
}
Result<void> SandboxManager::delete_snapshot(const std::string& id) const {
  return client_.core()->run_task(on(client_).delete_snapshot(id));
}
Result<Snapshot> SandboxManager::wait_for_snapshot(const std::string& id, std::chrono::milliseconds timeout) const {
  return client_.core()->run_task(on(client_).wait_for_snapshot(id, timeout));
}

Result<Template> SandboxManager::create_template(const CreateTemplateOptions& options) const {
  return client_.core()->run_task(on(client_).create_template(options));
}
Result<Template> SandboxManager::get_template(const std::string& id) const {
  return client_.core()->run_task(on(client_).get_template(id));
}
Result<TemplateList> SandboxManager::templates(const TemplateListOptions& options) const {
  return client_.core()->run_task(on(client_).templates(options));
}
Result<void> SandboxManager::delete_template(const std::string& id) const {
  return client_.core()->run_task(on(client_).delete_template(id));
}
Result<std::string> SandboxManager::template_logs(const std::string& id) const {
  return client_.core()->run_task(on(client_).template_logs(id));
}
Result<Template> SandboxManager::wait_for_template(const std::string& id, std::chrono::milliseconds timeout) const {
  return client_.core()->run_task(on(client_).wait_for_template(id, timeout));
}

Result<std::vector<Image>> SandboxManager::images() const { return client_.core()->run_task(on(client_).images()); }

Result<Image> SandboxManager::pull_image(const PullOptions& options, const PullHandler& progress) const {
  return client_.core()->run([&](Caller& caller) {
    async::PullSink sink;
    if (progress) {
      sink = [&caller, &progress](const PullProgress& now) -> async::Task<bool> {
        return caller.run<bool>([&progress, &now]() -> Result<bool> { return progress(now); });
      };
    }
    return on(client_).pull_image(options, std::move(sink));
  });
}

Result<std::vector<Image>> SandboxManager::load_image(const std::string& local_file, const std::string& name,
                                                      const TransferProgress& progress) const {
  const auto fd = osb::sys::open_at(AT_FDCWD, local_file, O_RDONLY | O_NOCTTY);
  if (!fd) return from_local(fd.error());
  const auto length = length_of(fd->get(), local_file);
  if (!length) return Failure(length.error());
  DescriptorSource reader(fd->get(), local_file, *length, progress);
  const ByteSource source = [&reader] { return reader.next(); };
  return client_.core()->run(
      [&](Caller& caller) { return on(client_).load_image(byte_source(caller, source), name, *length); });
}

Result<std::vector<Image>> SandboxManager::load_image(const ByteSource& archive, const std::string& name) const {
  return client_.core()->run(
      [&](Caller& caller) { return on(client_).load_image(byte_source(caller, archive), name); });
}

Result<void> SandboxManager::remove_image(const std::string& uri, bool force) const {
  return client_.core()->run_task(on(client_).remove_image(uri, force));
}

Result<Diagnostics> SandboxManager::logs(const std::string& id, const std::string& scope, std::optional<int> tail,
                                         const std::string& since) const {
  return client_.core()->run_task(on(client_).logs(id, scope, tail, since));
}
Result<LogEnd> SandboxManager::follow_logs(const std::string& id, const LogHandler& handler,
                                           const LogOptions& options) const {
  return client_.core()->run([&](Caller& caller) {
    return on(client_).follow_logs(
        id,
        [&caller, &handler](std::span<const LogOutput> pieces) -> async::Task<bool> {
          return caller.run<bool>([&handler, pieces]() -> Result<bool> {
            return std::ranges::all_of(pieces, [&](const LogOutput& piece) { return handler(piece); });
          });
        },
        options);
  });
}
Result<Diagnostics> SandboxManager::events(const std::string& id, const std::string& scope,
                                           std::optional<int> limit) const {
  return client_.core()->run_task(on(client_).events(id, scope, limit));
}
Result<DiagnosticContext> SandboxManager::diagnostic_context(const std::string& id) const {
  return client_.core()->run_task(on(client_).diagnostic_context(id));
}
Result<std::string> SandboxManager::logs_text(const std::string& id, std::optional<int> tail,
                                              const std::string& since) const {
  return client_.core()->run_task(on(client_).logs_text(id, tail, since));
}
Result<std::string> SandboxManager::events_text(const std::string& id, std::optional<int> limit) const {
  return client_.core()->run_task(on(client_).events_text(id, limit));
}
Result<std::string> SandboxManager::inspect_text(const std::string& id) const {
  return client_.core()->run_task(on(client_).inspect_text(id));
}
Result<std::string> SandboxManager::summary_text(const std::string& id, std::optional<int> tail,
                                                 std::optional<int> event_limit) const {
  return client_.core()->run_task(on(client_).summary_text(id, tail, event_limit));
}
Result<std::string> SandboxManager::request(const std::string& method, const std::string& path,
                                            const std::string& body) const {
  return client_.core()->run_task(on(client_).request(method, path, body));
}

}  // namespace opensandbox
