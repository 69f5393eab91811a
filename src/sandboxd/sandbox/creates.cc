#include "sandboxd/sandbox/creates.h"

#include "async/race.h"
#include "base/id.h"
#include "base/log.h"
#include "sandboxd/sandbox/ask_execd.h"
#include "sandboxd/sandbox/check_request.h"
#include "sandboxd/sandbox/exit_reason.h"
#include "sandboxd/sandbox/file_tail.h"
#include "sandboxd/sandbox/image_config_text.h"
#include "sandboxd/sandbox/sandbox_plan.h"

namespace osb::sandboxd {

using api::native::SandboxStatus;
using api::native::State;
using namespace race;

namespace {

// execd answers within milliseconds; a host that is this slow is broken.
constexpr std::chrono::seconds kReadyLimit(60);

Error with_reason(Error error, const char* reason) {
  if (error.reason.empty()) error.reason = reason;
  return error;
}

Failure aborted() { return fail(Code::Cancelled, "removed while it was being created"); }

std::string percent(const std::map<image::Digest, image::PullProgress>& layers) {
  std::uint64_t done = 0, total = 0;
  for (const auto& [layer, progress] : layers) {
    done += progress.stage == image::PullProgress::Stage::Downloading ? progress.bytes : progress.total;
    total += progress.total;
  }
  return "pulling " + std::to_string(total == 0 ? 0 : done * 100 / total) + "%";
}

SandboxRecord new_record(api::native::CreateSandbox spec, std::optional<policy::Policy> policy, Timestamp now) {
  SandboxRecord record;
  if (policy) {
    record.network_policy =
        PolicyRecord{.policy = std::move(*policy), .audit = spec.audit_policy, .intercept = spec.credential_proxy};
  }
  spec.network_policy.reset();
  record.status.egress_token = std::exchange(spec.egress_token, "");
  if (record.network_policy && record.status.egress_token.empty()) record.status.egress_token = new_token();
  SandboxStatus& status = record.status;
  status.id = spec.id;
  status.image = spec.image;
  status.snapshot = spec.snapshot;
  status.created_at = now;
  status.network = spec.network;
  status.execd_token = std::exchange(spec.execd_token, "");
  if (status.execd_token.empty()) status.execd_token = new_hex_id() + new_hex_id();
  status.requested_entrypoint = spec.requested_entrypoint;
  status.labels = spec.labels;
  status.message = "starting";
  record.spec = std::move(spec);
  return record;
}

}  // namespace

net::awaitable<Result<SandboxStatus>> Creates::create(api::native::CreateSandbox spec) {
  if (context_.table.contains(spec.id)) co_return fail(Code::Conflict, "sandbox " + spec.id + " exists");
  if (auto checked = check_request(spec); !checked) co_return Failure(checked.error());
  auto policy = network_policy_of(spec);
  if (!policy) co_return Failure(with_reason(policy.error(), "SANDBOX::INVALID_PARAMETER"));
  if (const std::string& why = context_.config().no_policies; *policy && !why.empty()) {
    co_return Failure(with_reason(Error(Code::Unsupported, "/networkPolicy: " + why), "SANDBOX::INVALID_PARAMETER"));
  }
  // Connections that are not intercepted would pass by the operator's proxy.
  if (*policy && context_.config().policies_go_through_proxy && !spec.credential_proxy) {
    co_return Failure(with_reason(
        Error(
            Code::InvalidRequest,
            "/networkPolicy: connections leave this host through a proxy ([egress] upstream_proxy of sandboxd), which "
            "needs \"credentialProxy\": {\"enabled\": true}"),
        "SANDBOX::INVALID_PARAMETER"));
  }
  if (auto applied = apply_ceilings(spec.limits, context_.config().ceilings); !applied) {
    co_return Failure(with_reason(applied.error(), "SANDBOX::INVALID_PARAMETER"));
  }
  if (auto place = check_place(); !place) co_return Failure(place.error());
  // Two microseconds, and never a wait for the disk: the file system keeps these counts in memory.
  if (auto room = context_.config().reserve.check(); !room) co_return Failure(room.error());
  auto runtime = context_.builder.launcher().resolve_runtime(spec.runtime);
  if (!runtime) co_return Failure(runtime.error());
  // Sessions would be outside of such a runtime, or behind other walls than the sandbox.
  const bool plain = runtime->oci.empty() && runtime->native_class.empty() && context_.config().exec_label.empty();
  if (spec.isolated_sessions && !plain) {
    co_return Failure(with_reason(
        Error(
            Code::Unsupported,
            "/extensions/bootstrap.execd.isolation: isolated sessions need the runtime native; this sandbox would run "
            "with gVisor, another runtime, a class of native with settings of its own, or a security label"),
        "SANDBOX::INVALID_PARAMETER"));
  }
  spec.runtime = std::move(runtime->oci);
  Login login = std::exchange(spec.login, std::nullopt);
  const EntryPtr entry = context_.table.make_entry();
  entry->record = new_record(std::move(spec), std::move(*policy), context_.builder.parts().now());
  entry->record.native_class = std::move(runtime->native_class);
  entry->busy = true;  // until run() has its guard
  context_.table.add(entry);
  context_.tasks.spawn("create sandbox", run(entry, std::move(login)));
  if (!co_await entry->settled.wait()) co_return fail(Code::Cancelled, "sandboxd is ending");
  if (entry->error) co_return Failure(*entry->error);
  co_return entry->record.status;
}

Result<void> Creates::check_place() const {
  const std::int64_t most = context_.config().ceilings.max_sandboxes;
  if (most <= 0 || context_.table.present() < static_cast<std::size_t>(most)) return {};
  Error full(Code::Exhausted, "this host holds all the " + std::to_string(most) +
                                  " sandboxes it may ([sandbox] max_sandboxes of sandboxd); remove some");
  return Failure(with_reason(std::move(full), "SANDBOX::CAPACITY_EXCEEDED"));
}

net::awaitable<void> Creates::run(EntryPtr entry, Login login) {
  const EntryGuard guard(entry);
  const Stopwatch time(context_.clock());
  ++under_way_;
  auto started = co_await start(entry, std::move(login));
  if (started) {
    log_info("sandbox created", {{"id", entry->id()}, {"ms", time.ms()}, {"address", entry->record.status.address}});
    context_.table.set_state(*entry, State::Running);
  } else {
    log_warn("sandbox not created", {{"id", entry->id()}, {"ms", time.ms()}, {"error", started.error().message}});
    co_await endings_.discard(entry, std::move(started.error()));
  }
  entry->settled.set();
  --under_way_;
  prepare_later();
}

void Creates::prepare_later() {
  if (under_way_ == 0 && !std::exchange(preparing_, true)) context_.tasks.spawn("prepare", prepare());
}

net::awaitable<void> Creates::prepare() {
  co_await context_.pool.run([&] { context_.builder.prepare(); });
  preparing_ = false;
}

net::awaitable<Result<void>> Creates::start(EntryPtr entry, Login login) {
  auto base = co_await find_base(entry, std::move(login));
  if (!base) co_return Failure(with_reason(base.error(), "NATIVE::SANDBOX_IMAGE_PULL_FAILED"));
  if (entry->abort.is_set()) co_return aborted();
  SandboxRecord& record = entry->record;
  record.image_config = encode_image_config(base->image.config);
  for (const auto& layer : base->image.layers) record.layers.insert(record.layers.begin(), layer.diff_id());
  entry->leases = base->image.layers;
  context_.table.set_state(*entry, State::Creating, "starting");
  // A copy: the loop shows the record to others meanwhile.
  SandboxRecord built = record;
  auto live = co_await context_.pool.run([&] { return context_.builder.build(built, *base); });
  record = std::move(built);
  if (!live) co_return Failure(with_reason(live.error(), "NATIVE::SANDBOX_START_FAILED"));
  entry->live = std::move(*live);
  if (entry->unwanted) co_return aborted();
  co_return co_await wait_ready(entry);
}

net::awaitable<Result<SandboxBase>> Creates::find_base(EntryPtr entry, Login login) {
  const std::string& snapshot = entry->record.spec.snapshot;
  if (snapshot.empty()) co_return co_await find_image(entry, std::move(login));
  auto base = snapshots_.base(snapshot);
  if (!base) co_return base;
  entry->record.status.image = base->image.name;
  entry->record.snapshots = base->snapshots;
  co_return base;
}

net::awaitable<Result<SandboxBase>> Creates::find_image(EntryPtr entry, Login login) {
  const api::native::CreateSandbox& spec = entry->record.spec;
  RegistryAuth auth;
  if (login) auth = image::Credentials{login->username, login->password};
  std::map<image::Digest, image::PullProgress> layers;
  const auto progress = [&](const image::PullProgress& each) {
    layers[each.layer] = each;
    std::string text = percent(layers);
    if (text != entry->record.status.message) context_.table.set_state(*entry, State::Creating, std::move(text));
  };
  auto outcome = co_await (images_.ensure(spec.image, spec.pull, std::move(auth), progress) || entry->abort.wait());
  if (outcome.index() == 1) co_return fail(Code::Cancelled, "removed while its image was being fetched");
  auto& image = std::get<0>(outcome);
  if (!image) co_return Failure(image.error());
  // Nothing runs by default: a shell without input would end the sandbox at once.
  if (image->kind == ResolvedImage::Kind::Host) image->config.cmd.clear();
  co_return SandboxBase{std::move(*image)};
}

net::awaitable<Result<void>> Creates::wait_ready(EntryPtr entry) {
  if (auto opened = endings_.open_watch(*entry); !opened) co_return opened;
  // When execd ends before it answers, its socket ends with it: the ping fails at once.
  auto answered = co_await with_timeout(ping(entry), kReadyLimit);
  if (!answered) {
    // An entrypoint may end before the ping: then the sandbox has lived, and its end is recorded as usual.
    const std::string exit_file = context_.config().exit_file(entry->id(), entry->record.spec.runtime);
    if (!read_exit_record(exit_file)) {
      if (entry->abort.is_set()) co_return aborted();
      const auto log = read_tail(context_.config().run_file(entry->id(), "execd.log"), 2000);
      Error error(Code::Internal, "execd did not answer: " + answered.error().message +
                                      (log && !log->empty() ? "; it said: " + *log : ""));
      co_return Failure(with_reason(std::move(error), "NATIVE::SANDBOX_EXECD_START_FAILED"));
    }
  }
  endings_.watch(entry);
  co_return Result<void>();
}

net::awaitable<Result<void>> Creates::ping(EntryPtr entry) {
  if (entry->live->log_watch) {
    if (auto listens = co_await wait_listening(entry); !listens) co_return listens;
  }
  // An address outlives its sandbox: a request to it would wait for seconds.
  auto outcome =
      co_await (ask_execd(client_, entry->record.status, "GET", "/ping") || entry->exit_watch->wait_readable());
  if (outcome.index() == 1) co_return fail(Code::Internal, "it ended");
  const auto& response = std::get<0>(outcome);
  if (!response) co_return Failure(response.error());
  if (response->status != 200) co_return fail(Code::Internal, "status " + std::to_string(response->status));
  co_return Result<void>();
}

// execd says so in the first line of its log, which also shows that it has started at all.
net::awaitable<Result<void>> Creates::wait_listening(EntryPtr entry) {
  auto watch = Descriptor::open(context_.executor, std::move(entry->live->log_watch));
  if (!watch) co_return Failure(watch.error());
  const std::string log = context_.config().run_file(entry->id(), "execd.log");
  for (;;) {
    const auto text = read_tail(log, 2000);
    if (!text) co_return Failure(text.error());
    if (text->find(" listening on ") != std::string::npos) co_return Result<void>();
    char news[4096];
    const auto got = co_await (watch->read_some(news) || entry->exit_watch->wait_readable());
    if (got.index() == 1) co_return fail(Code::Internal, "it ended");
    if (!std::get<0>(got)) co_return Failure(std::get<0>(got).error());
  }
}

}  // namespace osb::sandboxd
