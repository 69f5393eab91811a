#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "egress/enforcer.h"
#include "egress/proxy/endpoint.h"
#include "egress/proxy/resolver.h"
#include "egress/sandbox/sandboxes.h"

namespace osb::egress {

// The way back to an asker: a UDP socket, or one TCP connection.
class ReplyChannel {
 public:
  virtual ~ReplyChannel() = default;
  virtual void send(const SocketAddress& to, std::string_view message) = 0;
  // Of the longest message, for a query.
  virtual std::size_t limit(const Query& query) const = 0;
};

struct ReplyPath {
  std::shared_ptr<ReplyChannel> channel;
  SocketAddress to;
};

struct ProxyCounters {
  std::uint64_t allowed = 0, denied = 0, cached = 0, forwarded = 0, failed = 0, limited = 0, malformed = 0;
};

// Called with every denied name, with every answer that has addresses, and with allowed names that get no answer. May
// be empty.
struct ProxyHooks {
  const bool* timed = nullptr;  // while it is true, SandboxMetrics::durations are kept; outlives the proxy
  std::function<void(const Sandbox&, std::string_view name)> denied = {};
  std::function<void(const Sandbox&, std::string_view name, std::string_view why)> failed = {};
  std::function<void(const Sandbox&, std::string_view name, const Answer&)> answered = {};
};

// Judges the questions of sandboxes and answers them. An answer with addresses is sent only after they are open for the
// sandbox that asked, under the policy that is in force then.
class DnsProxy {
 public:
  DnsProxy(Resolver& resolver, Enforcer& enforcer, const Clock& clock, ProxyHooks hooks = {})
      : resolver_(resolver), enforcer_(enforcer), clock_(clock), hooks_(std::move(hooks)) {}

  // One message of a sandbox.
  void handle(const SandboxPtr& sandbox, std::string_view message, const ReplyPath& reply);

  // Opens addresses whose names are still allowed under a new policy.
  void reopen(const SandboxPtr& sandbox, std::vector<std::pair<api::egress::OpenAddress, std::string>> addresses);

  const ProxyCounters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kMostWaiting = 256;  // questions of one sandbox that wait for upstream servers
  // The cost of the answer to a question.
  enum class Meter : std::uint8_t {
    None,
    Text,      // of a name that the policy names, with records of free text
    Wildcard,  // of a name that the asker has chosen
  };
  struct Pending {
    SandboxPtr sandbox;
    Query query;
    ReplyPath reply;
    bool again = false;  // it has been judged a second time, after a change of the policy
    Meter meter = Meter::None;
  };
  using PendingPtr = std::shared_ptr<Pending>;

  void judge(const SandboxPtr& sandbox, const Query& query, const ReplyPath& reply, bool again);
  // `free`: bytes of the name that the policy leaves to the asker.
  bool may_forward(Sandbox& sandbox, const Query& query, std::string_view name, std::size_t free, Meter meter);
  bool may_tell(Sandbox& sandbox, const Answer& answer, Meter meter);
  void answer(const SandboxPtr& sandbox, const Query& query, const ReplyPath& reply, const Answer& answer,
              std::shared_ptr<const Answer> holder, std::uint32_t age, bool again);
  void open_and_send(PendingPtr pending, std::shared_ptr<const Answer> answer, std::uint32_t age,
                     std::vector<bool> hidden, std::vector<api::egress::OpenAddress> missing);
  void send(const ReplyPath& reply, const Query& query, const PlainReply& plain);
  // The end of an allowed question.
  void finish(Sandbox& sandbox, const Query& query, const ReplyPath& reply);
  void limit_question(Sandbox& sandbox, const ReplyPath& reply, const Query& query);
  void fail_question(Sandbox& sandbox, const ReplyPath& reply, const Query& query, std::string_view why);

  Resolver& resolver_;
  Enforcer& enforcer_;
  const Clock& clock_;
  ProxyHooks hooks_;
  Query query_;                     // of the message being handled
  std::vector<Budget::Told> told_;  // of the answer being judged
  std::string buffer_;
  ProxyCounters counters_;
};

}  // namespace osb::egress
