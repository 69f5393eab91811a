#include "execd/code/code_service.h"

#include <utility>

#include "base/concat.h"
#include "base/duration.h"
#include "base/id.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "execd/code/code_language.h"
#include "execd/code/driver_factory.h"
#include "execd/code/jupyter/jupyter_factory.h"

namespace osb::execd {
namespace {

// Below the 30 s that clients wait for an answer.
constexpr std::chrono::seconds kReady{25};
constexpr std::size_t kMaxLanguage = 64;

Failure refuse(Code code, std::string message) {
  Error error(code, std::move(message));
  error.reason = "RUNTIME_ERROR";
  return Failure(std::move(error));
}

}  // namespace

std::chrono::milliseconds code_interrupt_grace(const Environment& env, std::chrono::milliseconds usual) {
  const auto it = env.find("EXECD_CODE_INTERRUPT_GRACE");
  if (it == env.end() || it->second.empty()) return usual;
  const auto grace = parse_duration(it->second);
  if (grace && grace->count() > 0) return std::chrono::ceil<std::chrono::milliseconds>(*grace);
  log_warn("EXECD_CODE_INTERRUPT_GRACE is no duration", {{"value", it->second}});
  return usual;
}

CodeService::CodeService(RunHost& host, CommandEnvironment& environment, Options options, Telemetry& telemetry)
    : host_(host),
      environment_(environment),
      telemetry_(telemetry),
      tasks_(host.executor()),
      options_(std::move(options)) {
  if (options_.jupyter && *options_.jupyter) jupyter_.emplace(**options_.jupyter);
}

CodeService::~CodeService() = default;

RunnerFactory* CodeService::runners(const std::string& name) {
  if (const auto it = runners_.find(name); it != runners_.end()) return it->second.get();
  std::unique_ptr<RunnerFactory> made;
  if (jupyter_) {
    if (name.empty() || name == "sql" || name.size() > kMaxLanguage) return nullptr;
    made = std::make_unique<jupyter::JupyterFactory>(host_.executor(), *jupyter_, tasks_, name);
  } else if (const CodeLanguage* language = CodeLanguage::find(name)) {
    made = std::make_unique<DriverFactory>(host_, environment_, *language);
  } else {
    return nullptr;
  }
  return runners_.emplace(name, std::move(made)).first->second.get();
}

Result<std::shared_ptr<CodeContext>> CodeService::make(api::CreateCodeContext request) {
  const std::string& name = request.language;
  if (closing_) return refuse(Code::Unavailable, "the daemon is shutting down");
  if (options_.jupyter && !*options_.jupyter) return refuse(Code::Internal, options_.jupyter->error().message);
  RunnerFactory* factory = runners(name);
  if (factory == nullptr) {
    const std::string known = jupyter_ ? "a language of the Jupyter server" : "one of " + CodeLanguage::names();
    return refuse(Code::Internal, concat("language ", in_quotes(name), ": not ", known));
  }
  auto directory = environment_.new_directory(request.cwd);
  if (!directory) return Failure(directory.error());
  auto context = std::make_shared<CodeContext>(
      host_.executor(), telemetry_, tasks_,
      CodeContext::Plan{.id = new_uuid(),
                        .language = name,
                        .runners = factory,
                        .settings = {request.cwd, std::move(*directory), std::move(request.envs)},
                        .timeout = request.timeout,
                        .log = options_.log,
                        .interrupt_grace = options_.interrupt_grace});
  if (auto started = context->start_runner(); !started) {
    const bool refused = started.error().code == Code::InvalidRequest;
    if (refused) return Failure(started.error());
    return refuse(Code::Internal, started.error().message);
  }
  contexts_.emplace(context->id(), context);
  return context;
}

net::awaitable<Result<std::shared_ptr<CodeContext>>> CodeService::create(api::CreateCodeContext request) {
  auto context = make(std::move(request));
  if (!context) co_return Failure(context.error());
  if (auto ready = co_await (*context)->ready(kReady); !ready) {
    co_await remove((*context)->id());
    co_return refuse(Code::Internal, ready.error().message);
  }
  co_return *context;
}

std::shared_ptr<CodeContext> CodeService::find(std::string_view id) const {
  const auto it = contexts_.find(id);
  return it == contexts_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<CodeContext>> CodeService::list(std::string_view language) const {
  std::vector<std::shared_ptr<CodeContext>> out;
  for (const auto& [id, context] : contexts_) {
    if (language.empty() || context->language() == language) out.push_back(context);
  }
  return out;
}

net::awaitable<bool> CodeService::remove(std::string id) {
  const auto it = contexts_.find(id);
  if (it == contexts_.end()) co_return false;
  const std::shared_ptr<CodeContext> context = it->second;
  contexts_.erase(it);
  if (const auto main = default_contexts_.find(context->language());
      main != default_contexts_.end() && main->second.lock() == context) {
    default_contexts_.erase(main);
  }
  co_await context->end();
  co_return true;
}

net::awaitable<void> CodeService::remove_all(std::string language) {
  const auto all = list(language);
  for (const auto& context : all) context->kill();
  for (const auto& context : all) co_await remove(context->id());
}

Result<RunSettings> CodeService::settings(const api::RunCode& request) const {
  RunSettings out;
  out.envs = request.envs;
  if (request.cwd.empty()) return out;
  auto directory = environment_.directory(request.cwd, environment_.for_command(request.envs));
  if (!directory) return Failure(directory.error());
  out.directory = std::move(*directory);
  return out;
}

Result<std::shared_ptr<Cell>> CodeService::run(const api::RunCode& request) {
  const auto wanted = settings(request);
  if (!wanted) return Failure(wanted.error());
  std::shared_ptr<CodeContext> context;
  if (!request.context_id.empty()) {
    context = find(request.context_id);
    if (!context) return refuse(Code::Internal, concat("context ", in_quotes(request.context_id), ": not found"));
  } else {
    if (const auto it = default_contexts_.find(request.language); it != default_contexts_.end()) {
      context = it->second.lock();
    }
    if (!context) {
      auto made = make({.language = request.language});
      if (!made) return Failure(made.error());
      context = *made;
      default_contexts_.insert_or_assign(request.language, context);
    }
  }
  auto cell = context->run(request.code, request.timeout, *wanted);
  if (!cell && cell.error().code == Code::InvalidRequest) return Failure(cell.error());
  if (!cell) return refuse(Code::Internal, cell.error().message);
  return cell;
}

net::awaitable<std::optional<Result<void>>> CodeService::interrupt(std::string id) {
  const std::shared_ptr<CodeContext> context = find(id);
  if (!context) co_return std::nullopt;
  co_await context->interrupt();
  co_return Result<void>();
}

net::awaitable<void> CodeService::shutdown() {
  closing_ = true;
  co_await remove_all("");
  for (const auto& [language, factory] : runners_) co_await factory->end();
  co_await tasks_.close();
}

}  // namespace osb::execd
