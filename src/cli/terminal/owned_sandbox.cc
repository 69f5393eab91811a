#include "cli/terminal/owned_sandbox.h"

#include <fcntl.h>
#include <functional>
#include <opensandbox/async.h>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "async/descriptor.h"
#include "async/race.h"
#include "async/run_loop.h"
#include "async/timer.h"
#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

using namespace race;

constexpr std::chrono::seconds kLife(600), kRenewEvery(300);
// An image may have to be fetched first; Ctrl-C ends the wait sooner.
constexpr std::chrono::minutes kReady(15);
// The reason in the status of a sandbox that is not created yet because the server's backend does not answer. A backend
// that restarts is back sooner than the limit.
constexpr std::string_view kBackendAway = "BACKEND_UNAVAILABLE";
constexpr std::chrono::seconds kAwayLimit(30);

// Waits for a sandbox and, where that fails or a signal comes, removes it again. A second signal ends that too, because
// the server may not answer any more.
class Startup {
 public:
  // Called with each status that the sandbox gets meanwhile. Empty: the server is not asked.
  using Show = std::function<void(const opensandbox::Status&)>;

  Startup(net::any_io_executor loop, opensandbox::async::Client client, std::string id, Show show, SignalFd& signals,
          Descriptor signal_fd)
      : client_(std::move(client)),
        id_(std::move(id)),
        show_(std::move(show)),
        signals_(signals),
        signal_fd_(std::move(signal_fd)),
        away_changed_(std::move(loop)) {}

  net::awaitable<void> run(opensandbox::ReadyOptions ready) {
    co_await (wait_ready(ready) || show_changes() || backend_stays_away() || next_signal());
    first_signal_ = std::exchange(signal_, std::nullopt);
    if (!is_ready()) co_await (remove() || next_signal());
  }

  bool is_ready() const { return !first_signal_ && !gave_up_ && ready_ && *ready_; }

  // Why it is not.
  Problem problem(const CommandIo& context) const {
    const auto signal = signal_ ? signal_ : first_signal_;
    const bool gone = removed_ && (*removed_ || removed_->error().not_found());
    Problem out{"", "INTERRUPTED", "Interrupted before the sandbox was ready; it was removed."};
    if (!signal && gave_up_) {
      // The status goes on with what happens when it is back.
      out = Problem{"Sandbox Error", std::string(kBackendAway), away_.substr(0, away_.find(';')),
                    "'osb doctor' looks for the reason."};
    } else if (!signal) {
      out = sdk_failed(context, ready_->error()).error();
    }
    if (signal) out.exit_code = exit_code_of_signal(*signal);
    if (gone) return out;
    const std::string why = removed_ ? ": " + removed_->error().message : "";
    if (signal) out.message = "Interrupted before the sandbox was ready";
    out.message += "; sandbox " + id_ + " may be left, as it could not be removed" + why;
    out.hint = "It ends at its deadline, or with: osb sandbox kill " + id_;
    return out;
  }

 private:
  net::awaitable<void> wait_ready(opensandbox::ReadyOptions ready) {
    ready_ = co_await opensandbox::async::Sandbox::connect(client_, id_, {.ready = ready, .health_check = {}});
  }

  // Until it is cancelled.
  net::awaitable<void> show_changes() {
    opensandbox::async::StateSink show = [this](const opensandbox::SandboxInfo* now) -> opensandbox::async::Task<bool> {
      if (now != nullptr) note(now->status);
      co_return now != nullptr;
    };
    if (show_) (void)co_await opensandbox::async::SandboxManager(client_).watch(id_, std::move(show));
    (void)co_await sleep_for(kReady);
  }

  void note(const opensandbox::Status& status) {
    show_(status);
    const bool away = status.reason == kBackendAway;
    if (away == !away_.empty()) return;
    away_ = away ? status.message : "";
    away_changed_.notify_all();
  }

  // Returns when it has been away for too long.
  net::awaitable<void> backend_stays_away() {
    while (co_await away_changed_.wait_until([this] { return !away_.empty(); })) {
      const auto outcome = co_await (away_changed_.wait() || sleep_for(kAwayLimit));
      gave_up_ = outcome.index() == 1 && std::get<1>(outcome);
      if (gave_up_) co_return;
    }
  }

  net::awaitable<void> remove() { removed_ = co_await opensandbox::async::SandboxManager(client_).kill(id_); }

  net::awaitable<void> next_signal() {
    for (;;) {
      while (const auto came = signals_.take()) {
        if (*came == SIGWINCH || *came == SIGCONT || *came == SIGTSTP) continue;
        signal_ = came;
        co_return;
      }
      if (!co_await signal_fd_.wait_readable()) co_return;
    }
  }

  opensandbox::async::Client client_;
  std::string id_;
  Show show_;
  SignalFd& signals_;
  Descriptor signal_fd_;
  Notifier away_changed_;
  std::string away_;  // what the server says about its backend; "" while that answers
  bool gave_up_ = false;
  std::optional<opensandbox::Result<opensandbox::async::Sandbox>> ready_;
  std::optional<opensandbox::Result<void>> removed_;
  std::optional<int> signal_, first_signal_;
};

// On a loop of its own, where a signal can end what is under way.
Expected<void> wait_or_remove(const CommandIo& context, const opensandbox::Client& client, const std::string& id,
                              opensandbox::ReadyOptions ready, Startup::Show show, SignalFd& signals) {
  net::io_context loop(1);
  auto connection = opensandbox::async::Client::open(loop.get_executor(), client.config());
  if (!connection) return sdk_failed(context, connection.error());
  auto signal_fd = Descriptor::open(loop.get_executor(), UniqueFd(::fcntl(signals.fd(), F_DUPFD_CLOEXEC, 0)));
  if (!signal_fd) return failed(signal_fd.error());
  Startup startup(loop.get_executor(), std::move(*connection), id, std::move(show), signals, std::move(*signal_fd));
  run_until_done(loop, startup.run(ready));
  if (!startup.is_ready()) return failed(startup.problem(context));
  return {};
}

}  // namespace

Expected<std::unique_ptr<OwnedSandbox>> OwnedSandbox::create(CommandIo& context, opensandbox::CreateOptions options,
                                                             bool renewed, SignalFd& signals) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  if (renewed) options.timeout = kLife;
  options.ready.timeout = kReady;
  const std::string doing = "Creating a sandbox from " + options.image;
  Spinner spinner(context.out(), doing);
  auto made = manager->create(options);
  if (!made) return sdk_failed(context, made.error());
  // A backend that went away after it was asked can keep the create waiting for long.
  Startup::Show show = [&, said = std::string()](const opensandbox::Status& status) mutable {
    const bool away = status.reason == kBackendAway;
    spinner.update(away ? "Waiting: " + status.message : doing);
    if (!away || status.message == said) return;
    said = status.message;
    if (!context.out().err().terminal) context.out().error_text("osb: waiting: " + said + "\n");
  };
  if (made->status.state == opensandbox::state::kRunning) show = {};
  auto ready = wait_or_remove(context, manager->client(), made->id, options.ready, std::move(show), signals);
  if (!ready) return failed(ready.error());
  auto sandbox = opensandbox::Sandbox::attach(manager->client(), made->id);
  return std::unique_ptr<OwnedSandbox>(new OwnedSandbox(context, std::move(sandbox), renewed));
}

OwnedSandbox::OwnedSandbox(CommandIo& context, opensandbox::Sandbox sandbox, bool renewed)
    : context_(context), sandbox_(std::move(sandbox)) {
  if (renewed) renewing_ = std::thread([this] { renew(); });
}

void OwnedSandbox::renew() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kRenewEvery, [this] { return ending_; })) {
    lock.unlock();
    (void)sandbox_.renew(kLife);  // if this fails there is a second chance before the deadline
    lock.lock();
  }
}

OwnedSandbox::~OwnedSandbox() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (renewing_.joinable()) renewing_.join();
  if (kept_) return;
  const Spinner spinner(context_.out(), "Removing the sandbox");
  const auto killed = sandbox_.kill();
  if (!killed && !killed.error().not_found()) {
    context_.out().warning("Sandbox " + sandbox_.id() + " could not be removed: " + killed.error().message +
                           "; it ends at its deadline, or with: osb sandbox kill " + sandbox_.id());
  }
}

}  // namespace osb::cli
