#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "async/timer.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "policy/matcher.h"

namespace osb::egress {

// One name and what became of the questions for it.
struct Decision {
  std::string name = {};
  policy::Action verdict = policy::Action::Deny;
  bool audited = false;   // let pass although the policy denies it
  std::string rule = {};  // the rule's target; empty: the default action
  std::string note = {};  // why an allowed name failed: "address not permitted", "rate limit"
  std::uint64_t count = 0;
  Timestamp first{}, last{};
  std::vector<IpAddress> addresses = {};  // that it resolved to last; those that were hidden too
  std::uint64_t seq = 0;                  // of the last change
};

std::string to_json(const Decision& decision);

// The last decisions of a sandbox, one entry per name: the oldest go when there are too many.
class Decisions {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMaxAddresses = 16;

  explicit Decisions(net::any_io_executor executor) : changed_(std::move(executor)) {}

  void record(std::string_view name, const policy::Verdict& verdict, bool audited, Timestamp now);
  // Adds to the entry of the name, if it is still there.
  void resolved(std::string_view name, std::vector<IpAddress> addresses);
  void failed(std::string_view name, std::string_view note);

  // Those that changed after `seq`, oldest change first; 0: all.
  std::vector<Decision> since(std::uint64_t seq) const;
  std::uint64_t seq() const { return seq_; }
  // Wakes at the next change. False: cancelled.
  net::awaitable<bool> wait();
  // The sandbox has gone: streams end.
  void close();
  bool closed() const { return closed_; }

 private:
  Decision* touch(std::string_view name, bool make);
  void changed(Decision& decision);

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::list<Decision> order_;  // the last change last
  std::unordered_map<std::string, std::list<Decision>::iterator, TextHash, std::equal_to<>> by_name_;
  std::uint64_t seq_ = 0;
  std::size_t waiting_ = 0;
  bool closed_ = false;
  Notifier changed_;
};

}  // namespace osb::egress
