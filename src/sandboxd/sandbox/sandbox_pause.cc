#include "sandboxd/sandbox/sandbox_pause.h"

namespace osb::sandboxd {
namespace {

using api::native::State;

Result<void> save_state(const SandboxConfig& config, SandboxRecord& record, State state) {
  record.status.state = state;
  return save_record(config.directory(record.spec.id), record);
}

Result<void> let_in(SlotRules& rules, const LiveSandbox& live, bool on) {
  if (!live.slot) return {};
  return on ? rules.accept(live.slot->index) : rules.refuse(live.slot->index);
}

}  // namespace

Result<void> pause_sandbox(const SandboxConfig& config, SlotRules& rules, SandboxRecord record,
                           const LiveSandbox& live) {
  auto done = live.cgroup->freeze(true);
  if (done) {
    done = save_state(config, record, State::Paused);
    if (!done) (void)live.cgroup->freeze(false);
  }
  if (!done) (void)let_in(rules, live, true);
  return done;
}

Result<void> resume_sandbox(const SandboxConfig& config, SlotRules& rules, SandboxRecord record,
                            const LiveSandbox& live) {
  // Connections that come before the processes run again wait in their queues.
  if (auto done = let_in(rules, live, true); !done) return done;
  auto done = save_state(config, record, State::Running);
  if (done) done = live.cgroup->freeze(false);
  if (!done) (void)let_in(rules, live, false);
  return done;
}

}  // namespace osb::sandboxd
