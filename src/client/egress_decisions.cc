// Egress: the names that a sandbox has asked for, as a list and as they come.
#include <opensandbox/async.h>

#include "client/egress_events.h"

namespace opensandbox::async {
namespace {

EgressDecision decision_from(const json::object& object) {
  EgressDecision out;
  out.name = text_of(object, "name");
  out.verdict = text_of(object, "verdict");
  out.rule = text_of(object, "rule");
  out.note = text_of(object, "note");
  if (const auto* audited = object.if_contains("audited")) out.audited = audited->is_bool() && audited->get_bool();
  out.count = int_of(object, "count").value_or(0);
  out.addresses = texts_of(object, "addresses");
  out.first_seen = text_of(object, "firstSeen");
  out.last_seen = text_of(object, "lastSeen");
  out.json = json::serialize(object);
  return out;
}

Task<std::vector<EgressDecision>> list(SandboxPtr sandbox) {
  auto objects = co_await list_egress(std::move(sandbox), "/decisions", "decisions");
  if (!objects) co_return Failure(std::move(objects.error()));
  std::vector<EgressDecision> out;
  for (const auto& each : *objects) out.push_back(decision_from(each));
  co_return out;
}

Task<bool> has_policy(SandboxPtr sandbox) {
  auto peer = co_await sandbox->egress();
  if (!peer) co_return Failure(std::move(peer.error()));
  co_return peer->headers.contains("OPENSANDBOX-EGRESS-AUTH");
}

Task<bool> hand_over(EgressDecisionSink sink, json::object object) { co_return co_await sink(decision_from(object)); }

}  // namespace

Task<bool> Egress::available() const { return has_policy(sandbox_); }
Task<std::vector<EgressDecision>> Egress::decisions() const { return list(sandbox_); }
Task<void> Egress::follow_decisions(EgressDecisionSink sink) const {
  return follow_egress(sandbox_, "/decisions?follow=true",
                       [sink = std::move(sink)](json::object object) { return hand_over(sink, std::move(object)); });
}

}  // namespace opensandbox::async
