#include "egress/proxy/dns_proxy.h"

#include <algorithm>

#include "policy/lifetime.h"

namespace osb::egress {
namespace {

// Types that hold addresses or names of hosts and no free text.
bool is_plain(RecordType type) {
  using enum RecordType;
  constexpr RecordType kPlain[] = {A, AAAA, CNAME, HTTPS, SVCB, NS, SOA, SRV, MX, PTR};
  return std::ranges::find(kPlain, type) != std::end(kPlain);
}

// Answers that are huge or are no answers to a question.
bool is_refused(const Query& query) {
  using enum RecordType;
  const RecordType type = query.question.type();
  return query.record_class != kClassIn || type == ANY || type == AXFR || type == IXFR || type == OPT;
}

}  // namespace

void DnsProxy::send(const ReplyPath& reply, const Query& query, const PlainReply& plain) {
  encode_reply(buffer_, query, plain);
  reply.channel->send(reply.to, buffer_);
}

void DnsProxy::fail_question(Sandbox& sandbox, const ReplyPath& reply, const Query& query, std::string_view why) {
  const std::string name = name_text(query.question.name());
  sandbox.decisions.failed(name, why);
  if (hooks_.failed) hooks_.failed(sandbox, name, why);
  encode_reply(buffer_, query, {.rcode = Rcode::ServFail});
  finish(sandbox, query, reply);
}

void DnsProxy::limit_question(Sandbox& sandbox, const ReplyPath& reply, const Query& query) {
  ++counters_.limited;
  fail_question(sandbox, reply, query, "rate limit");
}

void DnsProxy::finish(Sandbox& sandbox, const Query& query, const ReplyPath& reply) {
  if (hooks_.timed != nullptr && *hooks_.timed) sandbox.metrics.answered(clock_.steady_now() - query.came);
  reply.channel->send(reply.to, buffer_);
}

void DnsProxy::handle(const SandboxPtr& sandbox, std::string_view message, const ReplyPath& reply) {
  // Beyond its rate a sandbox gets no answers: each would cost as much as a question.
  const SteadyTime now = clock_.steady_now();
  if (!sandbox->budget.take_question(now)) {
    ++counters_.limited;
    return;
  }
  parse_query(message, query_);
  if (query_.problem != Query::Problem::None) {
    ++counters_.malformed;
    encode_problem(buffer_, query_);
    if (!buffer_.empty()) reply.channel->send(reply.to, buffer_);
    return;
  }
  query_.came = now;
  judge(sandbox, query_, reply, false);
}

void DnsProxy::judge(const SandboxPtr& sandbox, const Query& query, const ReplyPath& reply, bool again) {
  std::array<char, kMaxName> room;
  const std::string_view name = name_text(query.question.name(), room);
  const policy::Verdict verdict = sandbox->matcher->name(name);
  // The operator's rules hold in audit mode too.
  const bool audited = !verdict.allowed() && sandbox->audit && !sandbox->matcher->of_operator(verdict.rule);
  if (!again) {
    sandbox->decisions.record(name, verdict, audited, std::chrono::time_point_cast<Timestamp::duration>(clock_.now()));
  }
  if (!verdict.allowed() && !audited) {
    ++counters_.denied;
    ++sandbox->metrics.denied;
    if (hooks_.denied) hooks_.denied(*sandbox, name);
    return send(reply, query, {.rcode = Rcode::NxDomain, .recursion_available = false, .blocked = true});
  }
  ++counters_.allowed;
  if (is_refused(query)) return send(reply, query, {.rcode = Rcode::NotImp});
  const std::size_t free = sandbox->free_bytes(name, verdict);
  const Meter meter = free > 0 ? Meter::Wildcard : is_plain(query.question.type()) ? Meter::None : Meter::Text;
  if (auto found = resolver_.cached(query.question)) {
    ++counters_.cached;
    const Answer& known = *found->answer;
    if (!may_tell(*sandbox, known, meter)) return limit_question(*sandbox, reply, query);
    return answer(sandbox, query, reply, known, std::move(found->answer), found->age, again);
  }
  if (!may_forward(*sandbox, query, name, free, meter)) return limit_question(*sandbox, reply, query);
  ++counters_.forwarded;
  ++sandbox->waiting;
  auto pending = std::make_shared<Pending>(Pending{sandbox, query, reply, again, meter});
  resolver_.resolve(
      sandbox->number, query.question, [this, pending](const std::shared_ptr<const Answer>& found, std::uint32_t age) {
        --pending->sandbox->waiting;
        if (pending->sandbox->gone) return;
        if (!found) {
          ++counters_.failed;
          return fail_question(*pending->sandbox, pending->reply, pending->query, "no name server answered");
        }
        if (!may_tell(*pending->sandbox, *found, pending->meter)) {
          return limit_question(*pending->sandbox, pending->reply, pending->query);
        }
        answer(pending->sandbox, pending->query, pending->reply, *found, found, age, pending->again);
      });
}

bool DnsProxy::may_forward(Sandbox& sandbox, const Query& query, std::string_view name, std::size_t free, Meter meter) {
  if (sandbox.waiting >= kMostWaiting) return false;
  const SteadyTime now = clock_.steady_now();
  if (meter == Meter::None) return true;
  if (!sandbox.budget.has_answers(now)) return false;
  if (!sandbox.opens_addresses() || sandbox.audit || resolver_.is_in_flight(query.question)) return true;
  // The type is a message of 16 bits too: rare types cost as much as a name.
  return sandbox.budget.take_name(name, free, now);
}

bool DnsProxy::may_tell(Sandbox& sandbox, const Answer& answer, Meter meter) {
  if (meter == Meter::None) return true;
  told_.clear();
  answer.for_each_told(
      [&](std::string_view content, std::size_t bytes) { told_.push_back(sandbox.budget.told(content, bytes)); });
  return sandbox.budget.take_answer(answer.number(), told_, meter == Meter::Text, clock_.steady_now());
}

void DnsProxy::answer(const SandboxPtr& sandbox, const Query& query, const ReplyPath& reply, const Answer& found,
                      std::shared_ptr<const Answer> holder, std::uint32_t age, bool again) {
  std::vector<bool> hidden;
  std::vector<api::egress::OpenAddress> missing;
  if (!found.addresses().empty()) {
    const policy::Matcher& matcher = *sandbox->matcher;
    const SteadyTime now = clock_.steady_now();
    const bool opens = sandbox->opens_addresses();
    const std::string name = name_text(query.question.name());
    bool refused = false;
    for (std::size_t i = 0; i < found.addresses().size(); ++i) {
      const auto& [address, ttl, piece] = found.addresses()[i];
      const policy::Rule* denied = matcher.denies(address);
      const bool closed = (denied != nullptr && (!sandbox->audit || matcher.of_operator(denied))) ||
                          (!is_public(address) && matcher.allows(address) == nullptr);
      // Sandboxes with a policy have no IPv6: its addresses would only cost time.
      if (closed || address.v6) {
        hidden.resize(found.addresses().size());
        hidden[i] = true;
        refused = refused || closed;
        continue;
      }
      const std::uint32_t left = ttl > age ? ttl - age : 0;
      const bool needed = opens && matcher.allows(address) == nullptr && !sandbox->opened.covers(address, left, now);
      if (needed) missing.push_back({address, static_cast<std::uint32_t>(policy::open_lifetime(left).count())});
    }
    for (auto& each : missing) each.name = name;
    if (age == 0 || refused) {
      std::vector<IpAddress> addresses;
      for (const auto& each : found.addresses()) addresses.push_back(each.address);
      sandbox->decisions.resolved(name, std::move(addresses));
      if (refused) sandbox->decisions.failed(name, "address not permitted");
    }
    if (hooks_.answered) hooks_.answered(*sandbox, name, found);
  }
  if (missing.empty()) {
    found.encode(buffer_, query, age, hidden, reply.channel->limit(query));
    return finish(*sandbox, query, reply);
  }
  open_and_send(std::make_shared<Pending>(Pending{sandbox, query, reply, again}), std::move(holder), age,
                std::move(hidden), std::move(missing));
}

void DnsProxy::open_and_send(PendingPtr pending, std::shared_ptr<const Answer> found, std::uint32_t age,
                             std::vector<bool> hidden, std::vector<api::egress::OpenAddress> missing) {
  const std::string& id = pending->sandbox->id;
  const std::uint64_t revision = pending->sandbox->revision;
  enforcer_.open(id, revision, missing,
                 [this, pending, found = std::move(found), age, hidden = std::move(hidden), missing,
                  revision](Result<void> opened) {
                   Sandbox& sandbox = *pending->sandbox;
                   if (sandbox.gone) return;
                   // Another policy came in between: it decides anew, once.
                   const bool stale =
                       sandbox.revision != revision || (!opened && opened.error().code == Code::Conflict);
                   if (stale && !pending->again) return judge(pending->sandbox, pending->query, pending->reply, true);
                   const std::string name = name_text(pending->query.question.name());
                   if (!opened || stale) {
                     ++counters_.failed;
                     return fail_question(sandbox, pending->reply, pending->query,
                                          stale ? "the policy changed" : opened.error().message);
                   }
                   const SteadyTime now = clock_.steady_now();
                   for (const auto& each : missing) {
                     sandbox.opened.opened(each.address, std::chrono::seconds(each.seconds), name, now);
                   }
                   found->encode(buffer_, pending->query, age, hidden, pending->reply.channel->limit(pending->query));
                   finish(sandbox, pending->query, pending->reply);
                 });
}

void DnsProxy::reopen(const SandboxPtr& sandbox,
                      std::vector<std::pair<api::egress::OpenAddress, std::string>> addresses) {
  std::vector<api::egress::OpenAddress> wanted;
  for (const auto& [each, name] : addresses) wanted.push_back({each.address, each.seconds, name});
  const std::uint64_t revision = sandbox->revision;
  enforcer_.open(sandbox->id, revision, std::move(wanted),
                 [this, sandbox, revision, addresses = std::move(addresses)](Result<void> opened) {
                   if (!opened || sandbox->revision != revision) return;
                   const SteadyTime now = clock_.steady_now();
                   for (const auto& [each, name] : addresses) {
                     sandbox->opened.opened(each.address, std::chrono::seconds(each.seconds), name, now);
                   }
                 });
}

}  // namespace osb::egress
