#include <opensandbox/code.h>
#include <opensandbox/commands.h>

#include "client/sync.h"

namespace opensandbox {
namespace {

using Type = ExecutionEvent::Type;

std::string plain(const std::string& text) { return text == "\n" ? std::string() : text; }

// False: the caller wants no more.
bool dispatch(const ExecutionHandlers& handlers, const ExecutionEvent& event) {
  if (handlers.on_event && !handlers.on_event(event)) return false;
  switch (event.type) {
    case Type::Init:
      if (handlers.on_init) handlers.on_init(event.text);
      break;
    case Type::Stdout:
      if (handlers.on_stdout) handlers.on_stdout(plain(event.text));
      break;
    case Type::Stderr:
      if (handlers.on_stderr) handlers.on_stderr(plain(event.text));
      break;
    case Type::Result:
      if (handlers.on_result) handlers.on_result(event.results);
      break;
    case Type::Error:
      if (handlers.on_error && event.error) handlers.on_error(*event.error);
      break;
    case Type::Complete:
      if (handlers.on_complete) handlers.on_complete(event.execution_time);
      break;
    default:
      break;
  }
  return true;
}

}  // namespace

async::EventSink event_sink(Caller& caller, const ExecutionHandlers& handlers) {
  if (!handlers.on_init && !handlers.on_stdout && !handlers.on_stderr && !handlers.on_result && !handlers.on_error &&
      !handlers.on_complete && !handlers.on_event) {
    return {};
  }
  return [&caller, &handlers](std::span<const ExecutionEvent> events) -> async::Task<void> {
    return caller.run<void>([&handlers, events]() -> Result<void> {
      for (const ExecutionEvent& event : events) {
        if (!dispatch(handlers, event)) return cancelled("the event handler asked to stop");
      }
      return {};
    });
  };
}

Result<Execution> Commands::run(const std::string& command, const RunOptions& options,
                                const ExecutionHandlers& handlers) const {
  return impl_->client.core()->run(
      [&](Caller& caller) { return impl_->sandbox.commands().run(command, options, event_sink(caller, handlers)); });
}

Result<Execution> Commands::run_program(const std::vector<std::string>& argv, const RunOptions& options,
                                        const ExecutionHandlers& handlers) const {
  return impl_->client.core()->run([&](Caller& caller) {
    return impl_->sandbox.commands().run_program(argv, options, event_sink(caller, handlers));
  });
}

Result<Execution> Commands::follow(const std::string& id, std::uint64_t after, const RunOptions& options,
                                   const ExecutionHandlers& handlers) const {
  return impl_->client.core()->run([&](Caller& caller) {
    return impl_->sandbox.commands().follow(id, after, options, event_sink(caller, handlers));
  });
}

Result<void> Commands::set_env(const std::string& name, const std::string& value) const {
  return impl_->client.core()->run_task(impl_->sandbox.commands().set_env(name, value));
}
Result<void> Commands::interrupt(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.commands().interrupt(id));
}
Result<CommandStatus> Commands::status(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.commands().status(id));
}
Result<CommandLogs> Commands::logs(const std::string& id, std::optional<std::int64_t> cursor) const {
  return impl_->client.core()->run_task(impl_->sandbox.commands().logs(id, cursor));
}

Result<std::string> Sessions::create(const std::string& cwd) const {
  return impl_->client.core()->run_task(impl_->sandbox.sessions().create(cwd));
}
Result<Execution> Sessions::run(const std::string& session_id, const std::string& command,
                                const SessionRunOptions& options, const ExecutionHandlers& handlers) const {
  return impl_->client.core()->run([&](Caller& caller) {
    return impl_->sandbox.sessions().run(session_id, command, options, event_sink(caller, handlers));
  });
}
Result<void> Sessions::remove(const std::string& session_id) const {
  return impl_->client.core()->run_task(impl_->sandbox.sessions().remove(session_id));
}

Result<CodeContext> CodeInterpreter::create_context(const std::string& language,
                                                    const CodeContextOptions& options) const {
  return impl_->client.core()->run_task(impl_->sandbox.code().create_context(language, options));
}
Result<CodeContext> CodeInterpreter::context(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.code().context(id));
}
Result<std::vector<CodeContext>> CodeInterpreter::contexts(const std::string& language) const {
  return impl_->client.core()->run_task(impl_->sandbox.code().contexts(language));
}
Result<void> CodeInterpreter::remove_context(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.code().remove_context(id));
}
Result<void> CodeInterpreter::remove_contexts(const std::string& language) const {
  return impl_->client.core()->run_task(impl_->sandbox.code().remove_contexts(language));
}
Result<Execution> CodeInterpreter::run(const std::string& code, const RunCodeOptions& options,
                                       const ExecutionHandlers& handlers) const {
  return impl_->client.core()->run(
      [&](Caller& caller) { return impl_->sandbox.code().run(code, options, event_sink(caller, handlers)); });
}
Result<void> CodeInterpreter::interrupt(const std::string& execution_id) const {
  return impl_->client.core()->run_task(impl_->sandbox.code().interrupt(execution_id));
}

}  // namespace opensandbox
