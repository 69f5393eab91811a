#include <algorithm>
#include <opensandbox/async.h>

#include <boost/asio/io_context.hpp>

#include "async/race.h"
#include "async/run_loop.h"
#include "async/timer.h"
#include "cli/encode.h"
#include "cli/lookup/lookup.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

using namespace race;
using opensandbox::SandboxInfo;

struct WaitOptions {
  std::vector<std::string> ids;
  std::string state = "Running";
  std::optional<Duration> timeout;
};

constexpr std::string_view kDeleted = "deleted";

// A state that a sandbox never leaves again.
bool is_final(const std::string& state) {
  return state == opensandbox::state::kFailed || state == opensandbox::state::kTerminated || state == kDeleted;
}

struct Waiting {
  std::string id;
  std::string state;    // the last known one
  std::string message;  // that came with it
  std::optional<opensandbox::Error> error;
};

// Nothing is asked twice: the server tells every change.
net::awaitable<void> watch(opensandbox::async::SandboxManager manager, std::string wanted, Waiting& out) {
  const auto result = co_await manager.watch(out.id, [&](const SandboxInfo* info) -> opensandbox::async::Task<bool> {
    out.state = info != nullptr ? info->status.state : std::string(kDeleted);
    out.message = info != nullptr ? info->status.message : std::string();
    co_return out.state != wanted && !is_final(out.state);
  });
  // A wait for `deleted` succeeds when the sandbox does not exist any more.
  if (!result && result.error().not_found() && wanted == kDeleted) {
    out.state = kDeleted;
  } else if (!result) {
    out.error = result.error();
  }
}

net::awaitable<void> watch_all(opensandbox::async::SandboxManager manager, std::string wanted,
                               std::vector<Waiting>& all, std::size_t from = 0) {
  if (from + 1 >= all.size()) co_return co_await watch(manager, wanted, all[from]);
  co_await (watch(manager, wanted, all[from]) && watch_all(manager, wanted, all, from + 1));
}

Outcome wait(CommandIo& context, const WaitOptions& options) {
  auto known = context.manager();
  if (!known) return failed(known.error());
  net::io_context loop(1);
  auto connection = opensandbox::async::Client::open(loop.get_executor(), known->client().config());
  if (!connection) return sdk_failed(context, connection.error());
  std::vector<Waiting> all;
  for (const std::string& given : options.ids) {
    auto id = find_sandbox(context, *known, given);
    // A name that no sandbox has any more is as good as deleted; the id is then what was given.
    if (!id && !(id.error().status == 404 && options.state == kDeleted)) return failed(id.error());
    all.push_back({.id = id.value_or(given), .state = {}, .message = {}, .error = {}});
  }
  bool timed_out = false;
  {
    const Spinner spinner(context.out(), "Waiting for " + options.state);
    const opensandbox::async::SandboxManager manager(*connection);
    const auto watch = [&]() -> net::awaitable<void> {
      if (!options.timeout) co_return co_await watch_all(manager, options.state, all);
      const auto first = co_await (watch_all(manager, options.state, all) || sleep_for(options.timeout->value));
      timed_out = first.index() == 1;
    };
    run_until_done(loop, watch());
  }
  json::array rows;
  std::optional<Problem> problem;
  for (const Waiting& each : all) {
    if (each.error && !problem) problem = sdk_failed(context, *each.error).error();
    rows.push_back(json::object{{"sandbox_id", each.id}, {"state", text_or_null(each.state)}});
    if (each.error || each.state == options.state || problem) continue;
    const std::string why = each.message.empty() ? "" : " (" + each.message + ")";
    if (is_final(each.state)) {
      problem = Problem{"Sandbox Error", "UNEXPECTED_STATE",
                        "Sandbox " + each.id + " is " + each.state + why + ", not " + options.state + "."};
    } else if (timed_out) {
      problem = Problem{"Sandbox Error", "TIMEOUT",
                        "Sandbox " + each.id + " is still " + each.state + why + " after " +
                            std::to_string(options.timeout->value.count()) + " s."};
    } else {
      problem = Problem{"Sandbox Error", "CONNECTION_LOST", "The server ended the stream of states of " + each.id + ".",
                        "Is it still running? 'osb doctor' checks it."};
    }
  }
  if (problem) return failed(std::move(*problem));
  context.out().rows(rows, {"sandbox_id", "state"});
  return 0;
}

}  // namespace

void add_wait_command(Command& root, CommandIo& context) {
  Command& command = root.command("wait", "Wait until sandboxes are in a state.");
  command.details(
      "The server tells every change as it happens. Exit code 0 when all are there; 1 when one has ended in another "
      "state, or when the time is up.");
  WaitOptions& options = command.values<WaitOptions>();
  command.argument("SANDBOX_ID", options.ids).completes(Completes::Sandboxes);
  command.option("--for", "STATE", "Running by default; deleted: until it is gone.", options.state)
      .choices({"Pending", "Running", "Pausing", "Paused", "Resuming", "Stopping", "Terminated", "Failed", "deleted"});
  command.option("--timeout", "DURATION", "The longest wait; no limit by default.", options.timeout);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options] { return wait(context, options); });
}

}  // namespace osb::cli
