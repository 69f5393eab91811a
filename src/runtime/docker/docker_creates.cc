#include "runtime/docker/docker_creates.h"

#include "api/isolation_extension.h"
#include "api/lifecycle_error.h"
#include "async/race.h"
#include "base/backoff.h"
#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/engine_json.h"
#include "runtime/policy_mode.h"
#include "tls/authority.h"

namespace osb::runtime {

using namespace race;
namespace json = boost::json;
using Call = EngineClient::Call;

namespace {

constexpr int kTries = 5;
constexpr std::chrono::seconds kReadyLimit(60);
// execd listens some milliseconds after the engine has started its container.
constexpr std::chrono::milliseconds kFirstAsk(1), kLastAsk(50);
// An engine finishes or drops a create whose asker was killed. It does not tell which.
constexpr std::chrono::seconds kUnfinishedLimit(30);
constexpr std::chrono::milliseconds kFirstLook(20), kLastLook(500);
constexpr std::string_view kStartFailed = "DOCKER::SANDBOX_START_FAILED";

Failure start_failed(const Error& why) {
  if (why.code == Code::Unavailable || why.code == Code::Cancelled || !why.reason.empty()) return Failure(why);
  return api::refuse(Code::Internal, kStartFailed, why.message);
}

bool is_port_clash(const Error& error) {
  return error.message.contains("port is already allocated") || error.message.contains("address already in use");
}

// The network was removed since it was looked for.
bool is_missing_network(const Error& error) {
  return error.message.contains("network") && error.message.contains("not found");
}

// A 404 of a create may also be about a network.
bool is_missing_image(const Error& error) {
  if (error.code != Code::NotFound) return false;
  return error.message.contains("No such image") || error.message.contains("no such image") ||
         error.message.contains("image not known") || error.message.contains("does not match the specified platform");
}

// Podman says it with a 500 while its storage knows the name and its database does not yet.
bool is_name_taken(const Error& error) {
  return error.code == Code::Conflict ||
         (error.message.contains("container name") && error.message.contains("is already in use"));
}

// Whether a storage driver can limit sizes is known only when it refuses.
bool is_about_size(const Error& error) {
  return error.message.contains("storage-opt") || error.message.contains("pquota") ||
         error.message.contains("storage option") || error.message.contains("quota");
}

Failure leaves_setuid_files() {
  return api::refuse(
      Code::InvalidRequest, api::reason::kVolumeHostPathNotAllowed,
      "a host path is writable and not mounted nosuid: a setuid file that the sandbox leaves there would "
      "make users of the host root, and with [docker] no_new_privileges = false nothing keeps it from "
      "that. Mount the directory nosuid on the host, mount it read-only in the sandbox, or set [docker] "
      "allow_setuid_files = true");
}

Failure removed_meanwhile() { return fail(Code::Cancelled, "the sandbox was removed while it was being created"); }

}  // namespace

Interest DockerCreates::interest_of(const std::string& id, Creation& creation) {
  return {creation.changed, [&creation] { return creation.given_up; },
          [this, id](const std::string& message) { containers_.announce_progress(id, message); }};
}

net::awaitable<Result<Instance>> DockerCreates::create(SandboxSpec spec) {
  const std::string id = spec.id;
  if (creating_.contains(id)) co_return fail(Code::Conflict, "sandbox " + id + " is being created");
  const auto creation = std::make_shared<Creation>(context_.executor);
  creating_[id] = creation;
  leftovers_.erase(id);
  const Containers::Hidden hidden(containers_, id);
  const struct Over {
    DockerCreates& self;
    const std::string& id;
    Creation& creation;
    ~Over() {
      self.creating_.erase(id);
      creation.over.set();
    }
  } over{*this, id, *creation};
  for (int left = kTries;; --left) {
    Made made;
    auto instance = co_await make(spec, *creation, made);
    if (instance) co_return instance;
    const Error error = instance.error();
    const bool away = error.code == Code::Unavailable && error.reason == "DOCKER::UNAVAILABLE";
    if (away) {
      // Its leftovers are removed when the engine is back, unless the next try continues with them. Its ports are not
      // kept until then: a port that is taken meanwhile shows as a clash.
      for (const std::uint16_t port : std::exchange(made.ports, {})) ports_.give_back(port);
      made.volumes.pinned.clear();
      leftovers_[id] = std::move(made);
      co_return Failure(error);
    }
    // Another program took a port meanwhile, or removed the volume with execd or the network.
    const bool unstaged = !made.execd.empty() && error.message.contains(made.execd);
    if (unstaged) execd_volume_.forget();
    const bool unlinked = is_missing_network(error);
    if (unlinked) network_.forget();
    const bool unlike = spec.create->network_policy && sidecars_.note_refusal(error);
    co_await undo(id, std::move(made));
    if (!(is_port_clash(error) || unstaged || unlinked || unlike) || left <= 1 || creation->given_up) {
      co_return Failure(error);
    }
    creation->died = false;
    log_info("trying once more", {{"id", id}, {"error", error.message}});
  }
}

net::awaitable<void> DockerCreates::undo(std::string id, Made made) {
  // First: Podman removes no container whose network another one uses.
  if (made.sidecar) co_await sidecars_.remove(id);
  if (made.container) {
    Call call{.method = "DELETE", .target = container_path(id, "?force=1&v=1")};
    const auto removed = co_await context_.engine.call(std::move(call));
    if (!removed && removed.error().code != Code::NotFound) {
      log_warn("container not removed", {{"id", id}, {"error", removed.error().message}});
    }
    containers_.forget(id);
  }
  if (made.network) co_await network_.release(id);
  for (const std::uint16_t port : made.ports) ports_.give_back(port);
  co_await remove_managed_volumes(context_.engine, std::move(made.volumes.created));
}

net::awaitable<Result<Instance>> DockerCreates::make(SandboxSpec spec, Creation& creation, Made& made) {
  ContainerPlan plan;
  if (auto ok = co_await prepare(spec, creation, made, plan); !ok) co_return start_failed(ok.error());
  if (creation.given_up) co_return removed_meanwhile();
  const bool has_policy = plan.has_policy;
  std::string authority;
  if (is_intercepted(*spec.create)) {
    // Of this sandbox alone. The key goes to the sidecar's volume and is kept nowhere else.
    const auto keys = tls::CertificateAuthority::create();
    if (!keys) co_return start_failed(keys.error());
    plan.authority = keys->certificate_pem();
    authority = keys->secret_pem();
  }
  if (has_policy) {
    if (auto ok = co_await remove_earlier(spec.id); !ok) co_return start_failed(ok.error());
  }
  auto id = co_await make_container(spec, creation, made, std::move(plan));
  if (!id) co_return start_failed(id.error());
  if (creation.given_up) co_return removed_meanwhile();
  // Before the container is started, so that whatever happens to this server, a sandbox that waits for its sidecar has
  // one that the next server starts.
  if (has_policy) {
    made.sidecar = true;
    auto ok = co_await sidecars_.make(spec, std::move(*id), std::move(authority), interest_of(spec.id, creation));
    if (!ok) co_return start_failed(ok.error());
    if (creation.given_up) co_return removed_meanwhile();
  }
  if (!made.volumes.pinned.empty()) {
    // As late as can be: an image may have been pulled since.
    const auto well = co_await context_.pool.run([&] { return check_sources(made.volumes.pinned); });
    if (!well) co_return Failure(well.error());
  }
  const auto started = co_await context_.engine.call({.method = "POST", .target = container_path(spec.id, "/start")});
  if (!started) co_return start_failed(started.error());
  for (const std::uint16_t port : made.ports) ports_.settle(port);
  // Its address is known only now.
  auto container = co_await containers_.look_up(spec.id);
  if (!container) co_return start_failed(container.error());
  if (auto ok = co_await check_mounts(*container, made.volumes); !ok) co_return Failure(ok.error());
  network_.check(spec.id);
  containers_.note(*container);
  if (has_policy) {
    const Instance located = containers_.describe(*container);
    if (!located.ports) co_return start_failed(Error(Code::Internal, "the engine gave it neither address nor port"));
    auto ok = co_await sidecars_.start(spec, *located.ports, interest_of(spec.id, creation));
    if (!ok) co_return start_failed(ok.error());
  }
  co_return co_await wait_for_execd(spec.id, creation);
}

// Finds a source that was replaced in the very moment of the start; its container is removed then.
net::awaitable<Result<void>> DockerCreates::check_mounts(const Container& container, const DockerVolumes& volumes) {
  if (volumes.pinned.empty()) co_return Result<void>();
  // Such runtimes mount elsewhere than in the root of the process that the engine names.
  const bool hidden =
      !context_.options.runtime.empty() || container.runtime.contains("runsc") || container.runtime.contains("kata");
  auto checked = co_await context_.pool.run([&]() -> Result<void> {
    if (!hidden) {
      const auto well = check_mounted(volumes.pinned, container.id, container.pid);
      if (!well) return Failure(well.error());
      if (*well) return {};
    }
    // The mounts are out of sight. A source that was replaced and not put back is found all the same.
    return check_sources(volumes.pinned);
  });
  if (!checked) log_warn("a mount was replaced", {{"id", container.sandbox}, {"error", checked.error().message}});
  co_return checked;
}

net::awaitable<Result<void>> DockerCreates::prepare(const SandboxSpec& spec, Creation& creation, Made& made,
                                                    ContainerPlan& plan) {
  const api::CreateSandbox& wanted = *spec.create;
  // Before anything is waited for, and so before the server answers.
  if (wanted.network_policy && !is_intercepted(wanted) && !context_.options.egress.upstream_proxy.url.empty()) {
    co_return api::invalid_parameter("/networkPolicy",
                                     "connections leave this host through a proxy ([egress.upstream_proxy] of the "
                                     "server), which needs \"credentialProxy\": {\"enabled\": true}");
  }
  if (context_.options.docker.network_mode != "host") {
    for (std::uint16_t* port : {&plan.execd_port, &plan.http_port, &plan.egress_port}) {
      // The engine would pass requests without the token of secure access; execd asks for its own token.
      if (port == &plan.http_port && wanted.secure_access) continue;
      if (port == &plan.egress_port && !(wanted.network_policy && sidecars_.needs_port())) continue;
      const auto taken = ports_.take();
      if (!taken) co_return api::refuse(Code::Internal, kStartFailed, taken.error().message);
      made.ports.push_back(*port = *taken);
    }
  }
  if (auto ok = co_await context_.pool.run([&] { return context_.facts.reserve.check(); }); !ok) co_return ok;
  const VolumeContext volumes{spec.id, context_.engine, context_.pool, context_.options.allowed_host_paths,
                              context_.facts.local};
  if (!wanted.volumes.empty()) {
    if (auto ok = co_await prepare_volumes(volumes, wanted.volumes, made.volumes); !ok) co_return ok;
  }
  plan.binds = context_.options.docker.sandbox_binds;
  plan.binds.insert(plan.binds.end(), made.volumes.binds.begin(), made.volumes.binds.end());
  plan.managed_volumes = made.volumes.managed;
  plan.no_set_id_files = made.volumes.open_to_users && !context_.facts.remaps_users &&
                         !context_.options.docker.allow_setuid_files && !api::wants_isolation(wanted.extensions);
  if (plan.no_set_id_files && !context_.options.docker.no_new_privileges) co_return leaves_setuid_files();
  plan.seccomp = context_.facts.seccomp;
  plan.has_policy = wanted.network_policy.has_value();
  plan.without_ipv6 = plan.has_policy && sidecars_.without_ipv6();
  auto limits = container_limits(wanted.resource_limits, context_.options, context_.facts);
  if (!limits) co_return Failure(limits.error());
  plan.limits = std::move(*limits);
  const bool restored = !wanted.snapshot_id.empty();
  plan.image = restored ? snapshot_image(wanted.snapshot_id) : wanted.image->uri;
  Images::Wanted image{.name = plan.image, .platform = wanted.platform, .login = {}, .pull = !restored};
  if (wanted.image) image.login = wanted.image->auth;
  if (auto there = co_await images_.ensure(std::move(image), interest_of(spec.id, creation)); !there) {
    co_return Failure(there.error());
  }
  auto files = co_await execd_volume_.mounts(wanted.platform, interest_of(spec.id, creation));
  if (!files) co_return Failure(files.error());
  plan.files = std::move(*files);
  made.execd = plan.files.front().source;
  auto network = co_await network_.ensure(spec.id);
  if (!network) co_return Failure(network.error());
  plan.network = std::move(*network);
  made.network = true;
  co_return Result<void>();
}

net::awaitable<Result<void>> DockerCreates::remove_earlier(std::string id) {
  if (!co_await containers_.look_up(id)) co_return Result<void>();
  co_await sidecars_.remove(id);
  const auto gone = co_await context_.engine.call({.method = "DELETE", .target = container_path(id, "?force=1")});
  if (!gone && gone.error().code != Code::NotFound) co_return Failure(gone.error());
  co_return Result<void>();
}

net::awaitable<Result<std::string>> DockerCreates::make_container(const SandboxSpec& spec, Creation& creation,
                                                                  Made& made, ContainerPlan plan) {
  Call call{.method = "POST", .target = "/containers/create?name=" + http::percent_encode(container_name(spec.id))};
  if (spec.create->platform && context_.engine.version().minor >= 41) {
    call.target += "&platform=" + http::percent_encode(spec.create->platform->os + "/" + spec.create->platform->arch);
  }
  call.body = create_body(spec, plan, context_.options);
  auto answer = co_await context_.engine.call(call);
  if (!answer && is_missing_image(answer.error()) && spec.create->snapshot_id.empty()) {
    // Another program has removed it.
    images_.forget_all();
    Images::Wanted image{.name = plan.image, .platform = spec.create->platform, .login = spec.create->image->auth};
    auto there = co_await images_.ensure(std::move(image), interest_of(spec.id, creation));
    if (!there) co_return Failure(there.error());
    answer = co_await context_.engine.call(call);
  }
  const auto deadline = context_.clock.steady_now() + kUnfinishedLimit;
  for (Backoff pause(kFirstLook, kLastLook); !answer && is_name_taken(answer.error());) {
    // An earlier try, or an earlier process, got so far. It was made of the same request; its ports are its own.
    if (plan.has_policy) {
      // Not this one: it may wait for a sidecar that is gone, and it trusts another authority.
      if (auto ok = co_await remove_earlier(spec.id); !ok) co_return Failure(ok.error());
    } else if (auto container = co_await containers_.look_up(spec.id)) {
      made.container = true;
      for (const std::uint16_t port : std::exchange(made.ports, {})) ports_.give_back(port);
      std::string id = container->id;
      containers_.note(std::move(*container));
      co_return id;
    }
    if (creation.given_up) co_return removed_meanwhile();
    if (context_.clock.steady_now() > deadline) break;
    (void)co_await (creation.changed.wait() || sleep_for(pause.next()));
    answer = co_await context_.engine.call(call);
  }
  if (!answer) {
    // It is not known whether the container was made.
    made.container = answer.error().code == Code::Unavailable;
    if (plan.limits.amounts.disk_bytes && is_about_size(answer.error())) {
      co_return api::invalid_parameter("/resourceLimits/disk", answer.error().message);
    }
    co_return Failure(answer.error());
  }
  made.container = true;
  for (const std::string& warning : engine::string_list(*answer, {"Warnings"})) {
    log_debug("the engine warns", {{"id", spec.id}, {"warning", warning}});
  }
  co_return engine::text(*answer, {"Id"});
}

// There is no cheaper way to know than to ask: the engine says only that the container was started. On a local engine
// the question goes to the container's own address, where the kernel refuses connections until execd listens; a
// published port would be accepted by the engine's proxy, which is why an answer counts and a connection does not. The
// questions begin when the start has returned, and end with the container.
net::awaitable<Result<Instance>> DockerCreates::wait_for_execd(std::string id, Creation& creation) {
  const auto deadline = context_.clock.steady_now() + kReadyLimit;
  Backoff pause(kFirstAsk, kLastAsk);
  for (;;) {
    if (creation.given_up) co_return removed_meanwhile();
    const Container* known = containers_.find(id);
    if (creation.died || known == nullptr || known->status == "exited") {
      auto container = co_await containers_.look_up(id);
      if (!container) co_return start_failed(with_context("its container ended", container.error()).error());
      const bool ended = container->status == "exited" || container->status == "dead";
      containers_.note(*container);
      // An entrypoint that ends so soon is no failure of the create; its output can be read.
      if (ended) co_return containers_.describe(*container);
      creation.died = false;
      continue;
    }
    const auto answered = co_await containers_.ask_execd(id);
    if (!answered) co_return start_failed(answered.error());
    // Heard while execd was asked: its answer is older than that.
    if (creation.died || creation.given_up) continue;
    if (*answered && containers_.find(id) != nullptr) co_return containers_.note_answer(id);
    if (context_.clock.steady_now() > deadline) {
      co_return api::refuse(Code::Internal, kStartFailed,
                            "execd has not answered for " + std::to_string(kReadyLimit.count()) + " s");
    }
    (void)co_await (creation.changed.wait() || sleep_for(pause.next()));
  }
}

// ---- asked by others

net::awaitable<bool> DockerCreates::give_up(std::string id) {
  const auto found = creating_.find(id);
  if (found == creating_.end()) co_return true;
  const std::shared_ptr<Creation> creation = found->second;
  creation->given_up = true;
  creation->changed.notify_all();
  co_return co_await creation->over.wait();
}

void DockerCreates::note_end(const std::string& id, bool ended) {
  const auto creation = creating_.find(id);
  if (creation == creating_.end()) return;
  creation->second->died = ended;
  creation->second->changed.notify_all();
}

net::awaitable<void> DockerCreates::undo_leftovers() {
  while (!leftovers_.empty()) {
    auto leftover = leftovers_.extract(leftovers_.begin());
    co_await undo(leftover.key(), std::move(leftover.mapped()));
  }
}

net::awaitable<void> DockerCreates::remove_abandoned(std::string id, std::vector<std::string> volumes) {
  Made made;
  made.container = made.network = made.sidecar = true;
  made.volumes.created = std::move(volumes);
  co_await undo(std::move(id), std::move(made));
}

const std::vector<std::string>* DockerCreates::leftover_volumes(const std::string& id) const {
  const auto left = leftovers_.find(id);
  return left == leftovers_.end() ? nullptr : &left->second.volumes.created;
}

}  // namespace osb::runtime
