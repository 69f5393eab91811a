#include "egress/host/host_link.h"

#include <cstring>
#include <utility>

#include "async/timer.h"
#include "base/log.h"

namespace osb::egress {
namespace {

namespace link = api::egress;

Result<void> to_result(const link::Answer& answer) {
  using enum link::Answer::Problem;
  switch (answer.problem) {
    case None:
      return {};
    case Stale:
      return fail(Code::Conflict, "the policy has changed meanwhile: " + answer.message);
    case Refused:
      return fail(Code::Forbidden, answer.message);
    case Limit:
      return fail(Code::Exhausted, answer.message);
    case Internal:
      break;
  }
  return fail(Code::Internal, answer.message);
}

}  // namespace

HostLink::HostLink(net::any_io_executor executor, FrameSocket socket, Sandboxes& sandboxes, Handlers handlers)
    : executor_(std::move(executor)),
      socket_(std::move(socket)),
      sandboxes_(sandboxes),
      handlers_(std::move(handlers)) {}

Result<void> HostLink::send_ready() { return socket_.send(link::encode(link::ToSandboxd(link::Ready{}))); }

net::awaitable<Result<void>> HostLink::run() {
  for (;;) {
    auto frame = co_await socket_.read();
    if (!frame || !*frame) {
      fail_all();
      if (!frame) co_return with_context("link to sandboxd", frame.error());
      co_return Result<void>();
    }
    if (auto taken = take(std::move(**frame)); !taken) co_return taken;
    drained_();
  }
}

Result<void> HostLink::take(FrameSocket::Frame frame) {
  auto message = link::decode_to_egress(frame.body);
  if (!message) return Failure(message.error());
  if (const auto* hello = std::get_if<link::Hello>(&*message)) handlers_.hello(*hello);
  if (auto* keys = std::get_if<link::Interception>(&*message)) {
    handlers_.interception(*keys);
    ::explicit_bzero(keys->authority.data(), keys->authority.size());
    ::explicit_bzero(frame.body.data(), frame.body.size());
  }
  if (const auto* sandbox = std::get_if<link::SandboxPolicy>(&*message)) return take_sandbox(*sandbox);
  if (const auto* gone = std::get_if<link::SandboxGone>(&*message)) sandboxes_.remove(gone->id);
  if (const auto* connection = std::get_if<link::Connection>(&*message)) {
    handlers_.connection(connection->id, std::move(frame.descriptor));
  }
  if (const auto* answer = std::get_if<link::Answer>(&*message)) take_answer(*answer);
  if (const auto* overlays = std::get_if<link::OverlayTexts>(&*message)) {
    if (auto set = sandboxes_.set_overlays(overlays->deny, overlays->allow); !set) {
      log_error("overlays are wrong; the old rules stay", {{"error", set.error().message}});
    }
  }
  return {};
}

Result<void> HostLink::take_sandbox(const link::SandboxPolicy& message) {
  if (auto set = sandboxes_.set(message); !set) {
    // It would go on under its old policy. Without an entry its questions get no answers.
    log_error("sandbox has no policy that can be read", {{"id", message.id}, {"error", set.error().message}});
    sandboxes_.remove(message.id);
  }
  return {};
}

void HostLink::take_answer(const link::Answer& answer) {
  auto waiting = waiting_.extract(answer.seq);
  if (waiting.empty()) return;
  waiting.mapped()(to_result(answer));
}

void HostLink::fail_all() {
  for (auto& [seq, done] : std::exchange(waiting_, {})) done(fail(Code::Unavailable, "sandboxd has gone"));
}

void HostLink::open(const std::string& id, std::uint64_t revision, std::vector<link::OpenAddress> addresses,
                    Done done) {
  const std::uint64_t seq = ++last_seq_;
  const auto sent = socket_.send(link::encode(link::ToSandboxd(
      link::OpenAddresses{.seq = seq, .id = id, .revision = revision, .addresses = std::move(addresses)})));
  if (!sent) return done(Failure(sent.error()));
  waiting_.emplace(seq, std::move(done));
}

net::awaitable<Result<void>> HostLink::set_policy(std::string id, std::uint64_t revision, policy::Policy policy) {
  const std::uint64_t seq = ++last_seq_;
  const auto sent = socket_.send(link::encode(link::ToSandboxd(
      link::SetPolicy{.seq = seq, .id = std::move(id), .revision = revision, .policy = policy::to_json(policy)})));
  if (!sent) co_return Failure(sent.error());
  co_return co_await answered(seq);
}

net::awaitable<Result<void>> HostLink::set_vault(std::string id, std::optional<vault::StoredVault> stored) {
  const std::uint64_t seq = ++last_seq_;
  const auto sent = socket_.send(
      link::encode(link::ToSandboxd(link::SetVault{.seq = seq, .id = std::move(id), .vault = std::move(stored)})));
  if (!sent) co_return Failure(sent.error());
  co_return co_await answered(seq);
}

net::awaitable<Result<void>> HostLink::answered(std::uint64_t seq) {
  // The waiter may be cancelled before the answer comes: the answer then finds only what it needs itself.
  struct Wait {
    explicit Wait(net::any_io_executor executor) : done(std::move(executor)) {}
    Event done;
    Result<void> result;
  };
  const auto wait = std::make_shared<Wait>(executor_);
  waiting_.emplace(seq, [wait](Result<void> result) {
    wait->result = std::move(result);
    wait->done.set();
  });
  if (!co_await wait->done.wait()) co_return fail(Code::Cancelled, "the change was cancelled");
  co_return wait->result;
}

}  // namespace osb::egress
