#pragma once

#include "server/service/adoption.h"
#include "server/service/backend_presence.h"
#include "server/service/creates.h"
#include "server/service/removals.h"
#include "server/service/sandbox_states.h"
#include "server/service/snapshot_service.h"
#include "server/template/templates.h"

namespace osb::server {

// Hears the backend and brings the records in line with it: after a start, after the backend was away, and with every
// change. The parts outlive it.
class Reconciliation final : public runtime::Observer {
 public:
  struct Parts {
    SandboxStates& states;
    Creates& creates;
    Removals& removals;
    Adoption& adoption;
    SnapshotService& snapshots;
    Templates& templates;
    BackendPresence& presence;
  };
  Reconciliation(const ServiceContext& context, Parts parts) : context_(context), parts_(parts) {}

  void on_all(std::vector<runtime::Instance> instances) override;
  void on_change(runtime::Instance instance) override;
  void on_removed(std::string id) override;
  void on_lost(const Error& why) override;
  void on_all_snapshots(std::vector<runtime::SnapshotInfo> all) override { parts_.snapshots.note_all(std::move(all)); }
  void on_snapshot(runtime::SnapshotInfo info) override { parts_.snapshots.note(std::move(info)); }
  void on_snapshot_removed(std::string id) override { parts_.snapshots.note_removed(std::move(id)); }

 private:
  void recover();
  // The backend has the sandbox of this record no longer.
  void lost(const SandboxPtr& record, std::string reason, std::string message);

  const ServiceContext& context_;
  const Parts parts_;
  bool recovered_ = false;  // the work of an earlier process was taken up
  bool templates_recovered_ = false;
};

}  // namespace osb::server
