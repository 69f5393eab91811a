// SandboxManager: templates.
#include <opensandbox/async.h>

#include "async/timer.h"
#include "base/backoff.h"
#include "base/deadline.h"
#include "client/decode.h"
#include "client/server_call.h"

namespace opensandbox::async {
namespace {

using std::chrono::milliseconds;

std::string template_target(const std::string& id, std::string_view rest = "") {
  return "/templates/" + encode(id).append(rest);
}

Task<Template> until_built(ClientState state, std::string id, milliseconds timeout) {
  const osb::Deadline deadline(timeout);
  for (osb::Backoff pause(milliseconds(50), milliseconds(1000));;) {
    auto now = co_await SandboxManager(Client(state)).get_template(id);
    if (!now || now->phase == "Succeeded") co_return now;
    Error error{.kind = ErrorKind::Unhealthy, .code = "UNHEALTHY"};
    error.message = "template " + id + " failed: " + now->message;
    if (now->phase == "Failed") co_return Failure(std::move(error));
    if (deadline.passed()) {
      error.kind = ErrorKind::ReadyTimeout;
      error.code = "READY_TIMEOUT";
      error.message = "template " + id + " was not built within " + std::to_string(timeout.count()) + " ms; it is " +
                      now->phase + ": " + now->message;
      co_return Failure(std::move(error));
    }
    if (!co_await osb::sleep_for(pause.next())) co_return cancelled("the wait was cancelled");
  }
}

}  // namespace

Task<Template> SandboxManager::create_template(CreateTemplateOptions options) const {
  if (options.image.empty()) return failed<Template>(no_id("image"));
  return ask(client_.state(), json_call("POST", "/templates", encode_create_template(options)), decode_template);
}

Task<Template> SandboxManager::get_template(std::string id) const {
  if (id.empty()) return failed<Template>(no_id("template id"));
  return ask(client_.state(), {.target = template_target(id)}, decode_template);
}

Task<TemplateList> SandboxManager::templates(TemplateListOptions options) const {
  std::string target = "/templates";
  if (!options.metadata.empty()) add_query(target, "metadata", metadata_filter(options.metadata));
  if (!options.match.empty()) add_query(target, "match", options.match);
  if (options.page > 0) add_query(target, "page", std::to_string(options.page));
  if (options.page_size > 0) add_query(target, "pageSize", std::to_string(options.page_size));
  return ask(client_.state(), {.target = std::move(target)}, decode_template_list);
}

Task<void> SandboxManager::delete_template(std::string id) const {
  if (id.empty()) return failed<void>(no_id("template id"));
  return tell(client_.state(), {.method = "DELETE", .target = template_target(id)});
}

Task<std::string> SandboxManager::template_logs(std::string id) const {
  if (id.empty()) return failed<std::string>(no_id("template id"));
  return text(client_.state(), {.target = template_target(id, "/logs")});
}

Task<Template> SandboxManager::wait_for_template(std::string id, milliseconds timeout) const {
  return until_built(client_.state(), std::move(id), timeout);
}

}  // namespace opensandbox::async
