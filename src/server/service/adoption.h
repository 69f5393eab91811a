#pragma once

#include <string>
#include <unordered_set>

#include "server/service/removals.h"
#include "server/service/sandbox_states.h"

namespace osb::server {

// Sandboxes that live and have no record, because the store or the record was lost. Those that carry our mark get a
// record again; those past their deadline, or without any, are removed. Sandboxes of other programs are not touched.
// Its arguments outlive it.
class Adoption {
 public:
  Adoption(const ServiceContext& context, SandboxStates& states, Removals& removals)
      : context_(context), states_(states), removals_(removals) {}

  // True: it has no record and carries our mark, so it is adopted or removed now.
  bool consider(const runtime::Instance& instance);
  // It was removed meanwhile.
  void forget(const std::string& id) { adopting_.erase(id); }

 private:
  net::awaitable<void> run(std::string id);
  net::awaitable<Result<void>> adopt(std::string id);

  const ServiceContext& context_;
  SandboxStates& states_;
  Removals& removals_;
  std::unordered_set<std::string> adopting_;  // a record is being made for it
};

}  // namespace osb::server
