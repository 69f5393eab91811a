#include "containerd/commit/committer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "async/race.h"
#include "base/log.h"
#include "base/time.h"
#include "containerd/commit/base_image.h"
#include "containerd/commit/image_push.h"
#include "image/image_pusher.h"
#include "image/registry_credentials.h"

namespace osb::containerd {
namespace {

// By then everything goes that a killed run without a retry has made.
constexpr std::chrono::hours kLeaseLife(24);
// How often a layer is written when something else resumes the container meanwhile.
constexpr int kLayerAttempts = 3;

std::string lease_of(const CommandLine& line) {
  std::string all = line.ns + "/" + line.pod;
  for (const CommitTarget& target : line.targets) all += "\n" + target.container + "=" + target.image;
  return "opensandbox-snapshot-" + image::Digest::of(all).hex().substr(0, 32);
}

std::string label_is(std::string_view name, const std::string& value) {
  return "labels.\"io.kubernetes." + std::string(name) + "\"==\"" + value + "\"";
}

bool is_live(TaskStatus status) {
  return status == TaskStatus::Running || status == TaskStatus::Paused || status == TaskStatus::Pausing;
}

// Runtimes whose containers have their files where containerd sees them. gVisor keeps changes in its own memory, and a
// virtual machine may have its disk to itself.
bool shares_files(const std::string& runtime) { return runtime.starts_with("io.containerd.runc."); }

}  // namespace

Committer::Committer(Tools tools, CommandLine line, std::optional<std::string> credentials)
    : tools_(tools),
      line_(std::move(line)),
      credentials_(std::move(credentials)),
      lease_(lease_of(line_)),
      tasks_(tools.client) {}

template <typename T>
net::awaitable<Result<T>> Committer::unless_stopped(net::awaitable<Result<T>> work) {
  using namespace race;
  if (tools_.stop.is_set()) co_return fail(Code::Cancelled, "told to stop");
  auto first = co_await (std::move(work) || tools_.stop.wait());
  if (first.index() == 0) co_return std::move(std::get<0>(first));
  co_return fail(Code::Cancelled, "told to stop");
}

net::awaitable<Result<std::vector<Committed>>> Committer::run() {
  auto done = co_await save_all();
  // Before the pushes, which may take long; and whatever has failed.
  auto resumed = co_await tasks_.resume_all();
  if (done && !resumed) done = resumed;
  if (done) done = co_await push_all();
  const auto cleaned = co_await clean_up();
  if (!done) co_return Failure(done.error());
  if (!cleaned) co_return Failure(cleaned.error());
  std::vector<Committed> out;
  for (const Job& job : jobs_) out.push_back({job.target.container, job.target.image, job.image.target.digest});
  co_return out;
}

net::awaitable<Result<void>> Committer::unpause() {
  Result<void> out;
  for (const CommitTarget& target : line_.targets) {
    const auto found = co_await containers_of(target.container);
    if (!found) co_return Failure(found.error());
    for (const Container& each : *found) {
      if (const auto status = co_await tasks_.adopt(each.id); !status) out = Failure(status.error());
    }
  }
  auto resumed = co_await tasks_.resume_all();
  co_return resumed ? out : resumed;
}

net::awaitable<Result<std::vector<Container>>> Committer::containers_of(std::string name) {
  return tools_.client.containers({label_is("pod.name", line_.pod) + "," + label_is("pod.namespace", line_.ns) + "," +
                                   label_is("container.name", name)});
}

// Several containers may have the name: earlier runs of it, and those of a pod of the same name that is gone for the
// cluster while its processes are still being ended. So it is the newest of those that live, or else the newest.
net::awaitable<Result<Container>> Committer::find_container(std::string name) {
  auto all = co_await containers_of(name);
  if (!all) co_return Failure(all.error());
  std::optional<Container> newest, live;
  const auto is_newer = [](const Container& one, const std::optional<Container>& other) {
    return !other || other->created_at < one.created_at;
  };
  for (Container& each : *all) {
    const auto status = co_await tasks_.adopt(each.id);
    if (!status) co_return Failure(status.error());
    if (is_live(*status) && is_newer(each, live)) live = each;
    if (is_newer(each, newest)) newest = std::move(each);
  }
  if (live) co_return std::move(*live);
  if (newest) co_return std::move(*newest);
  co_return fail(Code::NotFound, "container " + name + " of pod " + line_.ns + "/" + line_.pod +
                                     " is not on this node: it was removed, or the pod runs elsewhere");
}

// Everything that can be found out while the container still runs.
net::awaitable<Result<void>> Committer::prepare(Job& job) {
  auto container = co_await find_container(job.target.container);
  if (!container) co_return Failure(container.error());
  job.container = std::move(*container);
  if (!shares_files(job.container.runtime)) {
    co_return fail(Code::Unsupported, "container " + job.target.container + " runs with " + job.container.runtime +
                                          ": only containers of runc can be saved");
  }
  auto snapshot = co_await tools_.client.snapshot(job.container.snapshotter, job.container.snapshot_key);
  if (!snapshot) co_return Failure(snapshot.error());
  job.snapshot = std::move(*snapshot);
  auto base = co_await find_base(tools_.client, job.container, job.snapshot.parent);
  if (!base) co_return Failure(base.error());
  job.base = std::move(*base);
  co_return Result<void>();
}

net::awaitable<Result<NewLayer>> Committer::make_layer(const Job& job) {
  Client& client = tools_.client;
  const std::string& snapshotter = job.container.snapshotter;
  const std::string view = lease_ + "-" + job.container.id;
  auto left = co_await client.view(snapshotter, view, job.snapshot.parent);
  if (!left && left.error().code == Code::Conflict) {  // of a run that was killed
    if (auto removed = co_await client.remove_snapshot(snapshotter, view); !removed) co_return Failure(removed.error());
    left = co_await client.view(snapshotter, view, job.snapshot.parent);
  }
  if (!left) co_return Failure(left.error());
  auto right = co_await client.mounts(snapshotter, job.container.snapshot_key);
  if (!right) co_return Failure(right.error());
  auto made = co_await unless_stopped(
      client.diff(std::move(*left), only_reading(std::move(*right)), std::string(image::kOciLayerType) + "+gzip"));
  if (auto removed = co_await client.remove_snapshot(snapshotter, view); !removed) {
    log_warn("a view stays until its lease ends", {{"view", view}, {"error", removed.error().message}});
  }
  if (!made) co_return Failure(made.error());
  const auto info = co_await client.blob(made->digest);
  if (!info) co_return Failure(info.error());
  const auto label = info->labels.find("containerd.io/uncompressed");
  const auto diff_id = image::Digest::parse(label != info->labels.end() ? label->second : "");
  if (!diff_id) co_return fail(Code::Internal, "containerd does not tell the digest of the uncompressed layer");
  co_return NewLayer{std::move(*made), *diff_id};
}

net::awaitable<Result<void>> Committer::save_layer(Job& job) {
  const std::string what = "container " + job.target.container;
  for (int attempt = 0; attempt < kLayerAttempts; ++attempt) {
    auto layer = co_await make_layer(job);
    if (!layer) co_return with_context(what, layer.error());
    job.layer = std::move(*layer);
    if (!job.paused) co_return Result<void>();
    const auto still = co_await tasks_.is_paused(job.container.id);
    if (!still) co_return Failure(still.error());
    if (*still) co_return Result<void>();
    // Another snapshot of the same container has ended.
    log_warn("resumed by somebody else, read again", {{"container", job.container.id}});
    const auto again = co_await tasks_.pause(job.container.id);
    if (!again) co_return Failure(again.error());
    job.paused = *again;
  }
  co_return fail(Code::Conflict, what + " was resumed by somebody else again and again while its files were read");
}

net::awaitable<Result<void>> Committer::save_image(Job& job) {
  const std::string created = format_timestamp_nanos(tools_.clock.now());
  auto image = commit_onto(job.base, *job.layer, created,
                           "container " + job.target.container + " of pod " + line_.ns + "/" + line_.pod);
  if (!image) co_return Failure(image.error());
  job.image = std::move(*image);
  Client& client = tools_.client;
  if (auto done = co_await client.write_blob(job.image.config, {}); !done) co_return done;
  if (auto done = co_await client.write_blob(job.image.manifest_text, job.image.references); !done) co_return done;
  co_return co_await client.set_image({job.target.reference.to_string(), job.image.target});
}

net::awaitable<Result<void>> Committer::save_all() {
  Client& client = tools_.client;
  for (const CommitTarget& target : line_.targets) jobs_.emplace_back().target = target;
  for (Job& job : jobs_) {
    if (auto done = co_await prepare(job); !done) co_return done;
  }
  if (auto done = co_await client.remove_lease(lease_); !done) co_return done;
  if (auto done = co_await client.create_lease(lease_, kLeaseLife); !done) co_return done;
  client.use_lease(lease_);
  for (Job& job : jobs_) {
    if (tools_.stop.is_set()) co_return fail(Code::Cancelled, "told to stop");
    const auto paused = co_await tasks_.pause(job.container.id);
    if (!paused) co_return Failure(paused.error());
    job.paused = *paused;
  }
  for (Job& job : jobs_) {
    if (auto done = co_await save_layer(job); !done) co_return done;
  }
  // The rest concerns containerd's database only.
  if (auto resumed = co_await tasks_.resume_all(); !resumed) co_return resumed;
  for (Job& job : jobs_) {
    if (auto done = co_await save_image(job); !done) co_return with_context(job.target.image, done.error());
    log_info("saved", {{"container", job.target.container},
                       {"image", job.target.image},
                       {"layer_bytes", job.layer->descriptor.size}});
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> Committer::push_all() {
  for (const Job& job : jobs_) {
    image::RegistryAccess access;
    access.plain_http = line_.plain_http;
    if (credentials_) {
      auto found = image::credentials_for(job.target.reference.registry, *credentials_);
      if (!found) co_return Failure(found.error());
      access.credentials = std::move(*found);
    }
    auto pushed = co_await unless_stopped(
        push_image(tools_.client, tools_.http, tools_.pool, job.target.reference, std::move(access), job.image));
    if (!pushed) co_return with_context("push of " + job.target.image, pushed.error());
    log_info("pushed", {{"image", job.target.image}, {"digest", job.image.target.digest.to_string()}});
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> Committer::clean_up() {
  tools_.client.use_lease("");
  co_return co_await tools_.client.remove_lease(lease_);
}

}  // namespace osb::containerd
