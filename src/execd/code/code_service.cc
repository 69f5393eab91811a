#include "execd/code/code_service.h"

#include <utility>

#include "base/concat.h"
#include "base/duration.h"
#include "base/id.h"
#include "base/json_escape.h"
#include "base/log.h"

namespace osb::execd {
namespace {

// Below the 30 s that clients wait for an answer.
constexpr std::chrono::seconds kReady{25};

std::chrono::milliseconds grace_from(const Environment& env, std::chrono::milliseconds usual) {
  const auto it = env.find("EXECD_CODE_INTERRUPT_GRACE");
  if (it == env.end() || it->second.empty()) return usual;
  const auto grace = parse_duration(it->second);
  if (grace && grace->count() > 0) return std::chrono::ceil<std::chrono::milliseconds>(*grace);
  log_warn("EXECD_CODE_INTERRUPT_GRACE is no duration", {{"value", it->second}});
  return usual;
}

Failure refuse(Code code, std::string message) {
  Error error(code, std::move(message));
  error.reason = "RUNTIME_ERROR";
  return Failure(std::move(error));
}

}  // namespace

CodeService::CodeService(RunHost& host, CommandEnvironment& environment, EventLog::Options log,
                         std::chrono::milliseconds interrupt_grace, Telemetry& telemetry)
    : host_(host),
      environment_(environment),
      telemetry_(telemetry),
      tasks_(host.executor()),
      log_(std::move(log)),
      interrupt_grace_(grace_from(environment.daemon(), interrupt_grace)) {}

CodeService::~CodeService() = default;

Result<std::shared_ptr<CodeContext>> CodeService::make(const std::string& name, const std::string& cwd,
                                                       std::map<std::string, std::string> envs) {
  if (closing_) return refuse(Code::Unavailable, "the daemon is shutting down");
  const KernelLanguage* language = KernelLanguage::find(name);
  if (language == nullptr) {
    return refuse(Code::Internal, concat("language ", in_quotes(name), ": not one of ", KernelLanguage::names()));
  }
  auto directory = environment_.new_directory(cwd);
  if (!directory) return Failure(directory.error());
  auto context = std::make_shared<CodeContext>(
      host_, environment_, telemetry_, tasks_,
      CodeContext::Plan{new_uuid(), language, cwd, std::move(*directory), std::move(envs), log_, interrupt_grace_});
  if (auto started = context->start_kernel(); !started) return refuse(Code::Internal, started.error().message);
  contexts_.emplace(context->id(), context);
  return context;
}

net::awaitable<Result<std::shared_ptr<CodeContext>>> CodeService::create(api::CreateCodeContext request) {
  auto context = make(request.language, request.cwd, std::move(request.envs));
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

Result<std::shared_ptr<Cell>> CodeService::run(const api::RunCode& request) {
  std::shared_ptr<CodeContext> context;
  if (!request.context_id.empty()) {
    context = find(request.context_id);
    if (!context) return refuse(Code::Internal, concat("context ", in_quotes(request.context_id), ": not found"));
  } else {
    if (const auto it = default_contexts_.find(request.language); it != default_contexts_.end()) {
      context = it->second.lock();
    }
    if (!context) {
      auto made = make(request.language, "", {});
      if (!made) return Failure(made.error());
      context = *made;
      default_contexts_.insert_or_assign(request.language, context);
    }
  }
  auto cell = context->run(request.code, request.timeout);
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
  co_await tasks_.close();
}

}  // namespace osb::execd
