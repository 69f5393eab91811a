#include "runtime/kubernetes/kubernetes_snapshots.h"

#include <boost/json/array.hpp>

#include "api/lifecycle_error.h"
#include "async/race.h"
#include "kubernetes/api_status.h"
#include "kubernetes/object.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/kubernetes/pod_spec.h"
#include "runtime/labels.h"
#include "tls/sha256.h"

namespace osb::runtime {

using namespace race;
namespace json = boost::json;
using kubernetes::ObjectPtr;
using kubernetes::text;

namespace {

constexpr std::string_view kSource = "opensandbox.io/source-sandbox-id", kScope = "opensandbox.io/snapshot-scope",
                           kName = "opensandbox.io/snapshot-name", kPublic = "public", kInternal = "internal";
constexpr std::size_t kHexDigits = 32;

std::string id_of(const json::object& object) { return std::string(kubernetes::label(object, label::kSnapshotId)); }

bool is_over(const json::object& object) {
  const std::string_view phase = text(object, {"status", "phase"});
  return phase == "Succeed" || phase == "Failed";
}

// Why the controller has given up, in its own words.
Error failure_of(const json::object& object) {
  Error out(Code::Internal, "the snapshot failed");
  const json::value* conditions = kubernetes::find(object, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return out;
  for (const json::value& each : conditions->get_array()) {
    if (!each.is_object() || text(each.get_object(), {"type"}) != "Failed") continue;
    out.reason = text(each.get_object(), {"reason"});
    out.message = text(each.get_object(), {"message"});
  }
  return out;
}

SnapshotInfo read_snapshot(const json::object& object) {
  SnapshotInfo out;
  out.id = id_of(object);
  out.sandbox_id = kubernetes::label(object, kSource);
  out.name = kubernetes::annotation(object, kName);
  if (const auto at = parse_timestamp(text(object, {"metadata", "creationTimestamp"}))) out.created_at = *at;
  if (!is_over(object)) return out;
  const auto image = text(object, {"status", "phase"}) == "Failed" ? Result<std::string>(Failure(failure_of(object)))
                                                                   : restore_image(object);
  out.state = image ? SnapshotInfo::State::Ready : SnapshotInfo::State::Failed;
  if (image) return out;
  out.reason = image.error().reason;
  out.message = image.error().message;
  return out;
}

bool is_listed(const json::object& object) {
  return kubernetes::label(object, kScope) == kPublic && !id_of(object).empty();
}

}  // namespace

std::string snapshot_object_name(std::string_view id) {
  std::string hex;
  for (const char c : id) {
    if (c != '-') hex += c;
  }
  if (hex.size() != kHexDigits || hex.find_first_not_of("0123456789abcdef") != hex.npos) {
    hex.clear();
    for (const std::uint8_t byte : tls::sha256(id)) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    hex.resize(kHexDigits);
  }
  return "osb-snap-" + hex;
}

Result<std::string> restore_image(const json::object& snapshot) {
  const json::value* containers = kubernetes::find(snapshot, {"status", "containers"});
  std::vector<std::string> all;
  if (containers != nullptr && containers->is_array()) {
    for (const json::value& each : containers->get_array()) {
      if (!each.is_object()) continue;
      std::string image(text(each.get_object(), {"imageUri"}));
      if (image.empty()) continue;
      if (text(each.get_object(), {"containerName"}) == kSandboxContainer) return image;
      all.push_back(std::move(image));
    }
  }
  if (all.size() == 1) return all.front();
  Error out(Code::Internal, all.empty() ? "the snapshot has no image"
                                        : "the snapshot has several images, none of them of the container sandbox");
  out.reason = all.empty() ? "snapshot_runtime_missing_image" : "snapshot_restore_image_ambiguous";
  return Failure(std::move(out));
}

KubernetesSnapshots::KubernetesSnapshots(net::any_io_executor executor, kubernetes::Client& client,
                                         const KubernetesOptions& options, TaskGroup& tasks)
    : client_(client),
      options_(options),
      tasks_(tasks),
      changed_(executor),
      objects_(executor, client,
               {.resource = kSandboxSnapshots,
                .ns = options.ns,
                .labels = std::string(label::kSnapshotId),
                .watch_time = options.watch_time}) {
  objects_.cache().on_change([this](const ObjectPtr& before, const ObjectPtr& after) { on_object(before, after); });
}

kubernetes::Ref KubernetesSnapshots::ref(const std::string& id) const {
  return {kSandboxSnapshots, {options_.ns, snapshot_object_name(id)}};
}

void KubernetesSnapshots::on_object(const ObjectPtr& before, const ObjectPtr& after) {
  changed_.notify_all();
  const json::object& object = after ? *after : *before;
  if (observer_ == nullptr || !is_listed(object)) return;
  if (after && !kubernetes::is_deleting(*after)) {
    observer_->on_snapshot(read_snapshot(*after));
  } else {
    observer_->on_snapshot_removed(id_of(object));
  }
}

net::awaitable<void> KubernetesSnapshots::run(Observer& observer) {
  if (!std::exchange(started_, true)) tasks_.spawn("watch snapshots", objects_.run());
  const struct Gone {
    KubernetesSnapshots& all;
    ~Gone() { all.observer_ = nullptr; }
  } gone{*this};
  if (!co_await objects_.wait_synced()) co_return;
  observer_ = &observer;
  std::vector<SnapshotInfo> all;
  for (const ObjectPtr& each : objects_.cache().list()) {
    if (is_listed(*each) && !kubernetes::is_deleting(*each)) all.push_back(read_snapshot(*each));
  }
  observer.on_all_snapshots(std::move(all));
  Notifier for_ever(co_await net::this_coro::executor);
  (void)co_await for_ever.wait();
}

net::awaitable<Result<ObjectPtr>> KubernetesSnapshots::until_over(std::string id) {
  if (!co_await objects_.wait_synced()) co_return fail(Code::Cancelled, "the server is ending");
  for (;;) {
    ObjectPtr found = objects_.cache().get(ref(id).key);
    if (!found || kubernetes::is_deleting(*found)) co_return nullptr;
    if (is_over(*found)) co_return found;
    if (!co_await changed_.wait()) co_return fail(Code::Cancelled, "the server is ending");
  }
}

net::awaitable<Result<void>> KubernetesSnapshots::create(SnapshotSpec spec) {
  json::object metadata{
      {"name", snapshot_object_name(spec.id)},
      {"labels",
       {{label::kSnapshotId, spec.id}, {kSource, spec.sandbox}, {kScope, spec.listed ? kPublic : kInternal}}}};
  if (!spec.name.empty()) metadata["annotations"] = {{kName, spec.name}};
  json::object object{{"metadata", std::move(metadata)}, {"spec", {{"sandboxName", spec.sandbox}}}};
  auto made = co_await client_.create(kSandboxSnapshots, options_.ns, std::move(object));
  if (!made && kubernetes::already_exists(made.error())) {
    // An earlier try has made it.
    made = co_await client_.get(ref(spec.id));
    if (made && text(*made, {"spec", "sandboxName"}) != spec.sandbox) {
      co_return api::refuse(Code::Conflict, "snapshot_runtime_conflict",
                            "snapshot " + spec.id + " exists, of another sandbox");
    }
  }
  if (!made) co_return Failure(made.error());
  objects_.observe(std::move(*made));
  const auto over = co_await until_over(spec.id);
  if (!over) co_return Failure(over.error());
  if (!*over) co_return fail(Code::NotFound, "the snapshot was removed while it was being made");
  if (text(**over, {"status", "phase"}) == "Failed") {
    const Error why = failure_of(**over);
    co_return fail(Code::Internal, (why.reason.empty() ? "" : why.reason + ": ") + why.message);
  }
  const auto image = restore_image(**over);
  if (!image) co_return Failure(image.error());
  co_return Result<void>();
}

net::awaitable<Result<bool>> KubernetesSnapshots::exists(std::string snapshot) {
  const auto over = co_await until_over(std::move(snapshot));
  if (!over) co_return Failure(over.error());
  co_return *over&& restore_image(**over).has_value();
}

net::awaitable<Result<void>> KubernetesSnapshots::remove(std::string snapshot) {
  const auto removed = co_await client_.remove(ref(snapshot));
  if (!removed && !kubernetes::is_not_found(removed.error())) co_return removed;
  co_return Result<void>();
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> KubernetesSnapshots::export_archive(std::string) {
  co_return fail(Code::Unsupported, "snapshots of the kubernetes backend are images in the registry of its controller");
}

net::awaitable<Result<std::string>> KubernetesSnapshots::image_of(std::string id) {
  ObjectPtr known = objects_.cache().get(ref(id).key);
  if (!known) {
    auto got = co_await client_.get(ref(id));
    if (!got && kubernetes::is_not_found(got.error())) {
      co_return api::refuse(Code::NotFound, api::reason::kSnapshotNotFound, "snapshot " + id + " does not exist");
    }
    if (!got) co_return Failure(got.error());
    known = std::make_shared<const json::object>(std::move(*got));
  }
  auto image = restore_image(*known);
  if (!image) co_return api::refuse(Code::Conflict, api::reason::kSnapshotNotReady, image.error().message);
  co_return image;
}

}  // namespace osb::runtime
