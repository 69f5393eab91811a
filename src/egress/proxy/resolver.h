#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "egress/proxy/answer_cache.h"
#include "egress/proxy/upstreams.h"

namespace osb::egress {

// Answers from the cache or from upstream. Equal questions in flight are asked once. Knows nothing of policies: callers
// have judged the question.
class Resolver {
 public:
  // No answer: no upstream server had one. `age` in seconds.
  using Done = std::move_only_function<void(const std::shared_ptr<const Answer>& answer, std::uint32_t age)>;

  Resolver(Upstreams& upstreams, AnswerCache& cache, const Clock& clock)
      : upstreams_(upstreams), cache_(cache), clock_(clock) {}

  std::optional<AnswerCache::Found> cached(const Question& question) {
    return cache_.find(question.key(), clock_.steady_now());
  }
  // True: somebody has asked already; nothing new would leave this host.
  bool is_in_flight(const Question& question) const { return waiting_.contains(question.key()); }
  // `owner` is charged for the place in the cache. `done` may be called before this returns.
  void resolve(std::uint64_t owner, const Question& question, Done done);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  void finish(std::uint64_t owner, const Question& question, Result<Response> response);

  Upstreams& upstreams_;
  AnswerCache& cache_;
  const Clock& clock_;
  std::uint64_t answers_ = 0;  // so far
  std::unordered_map<std::string, std::vector<Done>, TextHash, std::equal_to<>> waiting_;
};

}  // namespace osb::egress
