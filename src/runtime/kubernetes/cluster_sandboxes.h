#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "kubernetes/client.h"
#include "kubernetes/informer.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// The sandboxes of one namespace as the API server tells them: the workloads and their pods, from two watches. A
// question costs no request. Tells the observer of every change. Its arguments outlive it.
class ClusterSandboxes {
 public:
  ClusterSandboxes(net::any_io_executor executor, kubernetes::Client& client, const KubernetesOptions& options,
                   TaskGroup& tasks);

  // Tells the observer until it is cancelled.
  net::awaitable<void> run(Observer& observer);
  void look_again() { looked_.notify_all(); }
  bool synced() const { return workloads_.synced() && pods_.synced(); }

  kubernetes::Key key_of(const std::string& id) const;          // of the workload
  kubernetes::ObjectPtr workload(const std::string& id) const;  // null: there is none
  kubernetes::ObjectPtr pod(const std::string& id) const;       // null: there is none
  Instance describe(const kubernetes::json::object& workload) const;
  std::vector<Instance> all() const;

  // The answer to a write of our own.
  void observe(kubernetes::json::object workload) { workloads_.observe(std::move(workload)); }

  // Our own deletion was accepted: until the watch tells its end, the sandbox is on its way out.
  void note_removed(const std::string& id);

  // A create that is under way: until its end the sandbox is not Running, and only the create tells its failure.
  class Creating {
   public:
    Creating(ClusterSandboxes& all, std::string id);
    ~Creating();
    Creating(const Creating&) = delete;
    Creating& operator=(const Creating&) = delete;

    bool given_up() const { return given_up_; }  // the sandbox is not wanted any more
    // How often its objects have changed.
    std::uint64_t changes() const { return changes_; }
    // Until they have changed since then. False: cancelled.
    net::awaitable<bool> wait_change(std::uint64_t seen);

   private:
    friend class ClusterSandboxes;
    void note();

    ClusterSandboxes& all_;
    const std::string id_;
    bool given_up_ = false;
    std::uint64_t changes_ = 0;
    Notifier changed_;
  };
  // Tells a create that its sandbox is not wanted any more, and returns when it has ended. False: cancelled.
  net::awaitable<bool> give_up(std::string id);

 private:
  kubernetes::Informer::Options informer(const kubernetes::Resource& resource);
  void on_workload(const kubernetes::ObjectPtr& before, const kubernetes::ObjectPtr& after);
  void on_pod(const kubernetes::ObjectPtr& before, const kubernetes::ObjectPtr& after);
  void announce(const std::string& id);
  // "": both watches are up to date.
  std::string problem() const;

  net::any_io_executor executor_;
  const KubernetesOptions& options_;
  TaskGroup& tasks_;
  Notifier looked_, problem_changed_, create_over_;
  kubernetes::Informer workloads_, pods_;
  Observer* observer_ = nullptr;
  std::map<std::string, Creating*> creating_;
  std::set<std::string> removed_;  // UIDs
  bool started_ = false;
};

}  // namespace osb::runtime
