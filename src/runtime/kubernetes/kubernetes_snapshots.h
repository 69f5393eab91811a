#pragma once

#include <string>

#include "async/task_group.h"
#include "async/timer.h"
#include "kubernetes/client.h"
#include "kubernetes/informer.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/lifecycle.h"
#include "runtime/snapshots.h"

namespace osb::runtime {

// The name of the object of a snapshot.
std::string snapshot_object_name(std::string_view id);
// The image to make sandboxes of: the saved container `sandbox`, or the only one. SNAPSHOT:: codes.
Result<std::string> restore_image(const boost::json::object& snapshot);

// Snapshots as SandboxSnapshot objects, which the controller carries out. The objects are the catalogue, so that
// several servers share it without a database. Its arguments outlive it.
class KubernetesSnapshots final : public Snapshots {
 public:
  KubernetesSnapshots(net::any_io_executor executor, kubernetes::Client& client, const KubernetesOptions& options,
                      TaskGroup& tasks);

  // Tells the observer until it is cancelled.
  net::awaitable<void> run(Observer& observer);
  net::awaitable<Result<std::string>> image_of(std::string id);

  net::awaitable<Result<void>> create(SnapshotSpec spec) override;
  net::awaitable<Result<bool>> exists(std::string snapshot) override;
  net::awaitable<Result<void>> remove(std::string snapshot) override;
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string snapshot) override;

 private:
  kubernetes::Ref ref(const std::string& id) const;
  void on_object(const kubernetes::ObjectPtr& before, const kubernetes::ObjectPtr& after);
  // The object when its work is over; null: it is gone.
  net::awaitable<Result<kubernetes::ObjectPtr>> until_over(std::string id);

  kubernetes::Client& client_;
  const KubernetesOptions& options_;
  TaskGroup& tasks_;
  Notifier changed_;
  kubernetes::Informer objects_;
  Observer* observer_ = nullptr;
  bool started_ = false;
};

}  // namespace osb::runtime
