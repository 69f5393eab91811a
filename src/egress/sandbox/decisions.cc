#include "egress/sandbox/decisions.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

namespace osb::egress {

namespace json = boost::json;

std::string to_json(const Decision& decision) {
  json::array addresses;
  for (const IpAddress& each : decision.addresses) addresses.emplace_back(format_ip_address(each));
  json::object out{{"name", decision.name},
                   {"verdict", policy::to_string(decision.verdict)},
                   {"rule", decision.rule},
                   {"count", decision.count},
                   {"addresses", std::move(addresses)},
                   {"firstSeen", format_timestamp(decision.first)},
                   {"lastSeen", format_timestamp(decision.last)}};
  if (decision.audited) out["audited"] = true;
  if (!decision.note.empty()) out["note"] = decision.note;
  return json::serialize(out);
}

Decision* Decisions::touch(std::string_view name, bool make) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    order_.splice(order_.end(), order_, found->second);
    return &*found->second;
  }
  if (!make) return nullptr;
  if (order_.size() >= kMost) {
    by_name_.erase(order_.front().name);
    order_.pop_front();
  }
  order_.emplace_back().name = name;
  by_name_.emplace(name, std::prev(order_.end()));
  return &order_.back();
}

void Decisions::changed(Decision& decision) {
  decision.seq = ++seq_;
  if (waiting_ > 0) changed_.notify_all();
}

void Decisions::record(std::string_view name, const policy::Verdict& verdict, bool audited, Timestamp now) {
  Decision& decision = *touch(name, true);
  if (decision.count == 0) decision.first = now;
  decision.verdict = verdict.action;
  decision.audited = audited;
  const std::string_view rule = verdict.rule != nullptr ? std::string_view(verdict.rule->text) : std::string_view();
  if (decision.rule != rule) decision.rule = rule;
  decision.note.clear();
  ++decision.count;
  decision.last = now;
  changed(decision);
}

void Decisions::resolved(std::string_view name, std::vector<IpAddress> addresses) {
  const auto found = by_name_.find(name);
  if (addresses.size() > kMaxAddresses) addresses.resize(kMaxAddresses);
  if (found == by_name_.end() || addresses == found->second->addresses) return;
  Decision* decision = touch(name, false);
  decision->addresses = std::move(addresses);
  changed(*decision);
}

void Decisions::failed(std::string_view name, std::string_view note) {
  Decision* decision = touch(name, false);
  if (decision == nullptr) return;
  decision->note = note;
  changed(*decision);
}

std::vector<Decision> Decisions::since(std::uint64_t seq) const {
  std::vector<Decision> out;
  auto at = order_.end();
  while (at != order_.begin() && std::prev(at)->seq > seq) --at;
  out.assign(at, order_.end());
  return out;
}

net::awaitable<bool> Decisions::wait() {
  ++waiting_;
  const bool notified = co_await changed_.wait();
  --waiting_;
  co_return notified && !closed_;
}

void Decisions::close() {
  closed_ = true;
  changed_.notify_all();
}

}  // namespace osb::egress
