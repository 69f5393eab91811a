#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/access/principal.h"
#include "server/service/admission.h"
#include "server/service/removals.h"
#include "server/service/state_waiters.h"
#include "server/template/template_builder.h"

namespace osb::server {

// Templates: records, builds and removals, and what an earlier process left of them. A record is written before the
// answer; a build goes on from wherever it was left. Nothing that a build makes outlives its need: the sandbox goes
// when the template has succeeded or failed, the snapshot with the template, as soon as no sandbox stands on it. Its
// arguments outlive it.
class Templates {
 public:
  struct Parts {
    SandboxStates& states;
    Creates& creates;
    Removals& removals;
    BackendPresence& presence;
  };
  Templates(const ServiceContext& context, Parts parts);

  // `who` belongs to the request, which waits.
  net::awaitable<Result<TemplatePtr>> create(api::CreateTemplate wanted, const Principal& who);
  // With the step of a build that is under way as its message.
  Result<TemplatePtr> get(std::string_view id, const Scope& scope) const;
  Result<Store::Page<TemplatePtr>> list(const api::TemplateQuery& query, const Scope& scope) const;
  // Sandboxes that were made of it go on.
  net::awaitable<Result<void>> remove(std::string id, Scope scope);
  // Output of the sandbox that builds it; of a build that has failed, the end of it.
  net::awaitable<Result<std::string>> log(std::string id, Scope scope);
  // Until it is built, has failed or is gone.
  net::awaitable<void> wait(std::string id, std::chrono::nanoseconds limit);

  // Goes on with the work of an earlier process, once the backend is heard.
  void recover();
  // A sandbox is gone: it may have been the last of a deleted template.
  void note_sandbox_gone();
  // Wakes those who wait.
  void notify_all() { waiters_.notify_all(); }

 private:
  struct Build;

  bool is_supported() const { return builder_.has_value(); }
  Result<void> check_workload(const api::CreateTemplate& wanted) const;
  TemplatePtr shown(TemplatePtr record) const;
  void begin(const std::string& id);
  net::awaitable<void> run(std::string id, std::shared_ptr<Build> build);
  net::awaitable<bool> until_finished(std::string id);
  net::awaitable<void> end_build(TemplatePtr record, Result<std::string> outcome, std::string step);
  // Removes what the template does not need any more, with retries.
  net::awaitable<void> clean(std::string id);
  net::awaitable<Result<bool>> clean_once(TemplatePtr record);
  net::awaitable<Result<void>> remove_sandbox(std::string id);
  bool is_in_use(const std::string& snapshot) const;

  const ServiceContext& context_;
  const Parts parts_;
  std::optional<TemplateBuilder> builder_;  // nothing: the backend has no snapshots
  Admission slots_;
  StateWaiters waiters_;
  Notifier sandbox_gone_;
  std::uint64_t sandboxes_gone_ = 0;
  std::unordered_map<std::string, std::shared_ptr<Build>> builds_;  // under way
};

}  // namespace osb::server
