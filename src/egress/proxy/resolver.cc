#include "egress/proxy/resolver.h"

#include <utility>

namespace osb::egress {

void Resolver::resolve(std::uint64_t owner, const Question& question, Done done) {
  const auto [place, first] = waiting_.try_emplace(std::string(question.key()));
  place->second.push_back(std::move(done));
  if (!first) return;
  upstreams_.ask(question,
                 [this, owner, question](Result<Response> response) { finish(owner, question, std::move(response)); });
}

void Resolver::finish(std::uint64_t owner, const Question& question, Result<Response> response) {
  auto waiting = waiting_.extract(waiting_.find(question.key()));
  std::shared_ptr<const Answer> answer;
  if (response) {
    answer = std::make_shared<const Answer>(question, *response, ++answers_);
    cache_.insert(owner, question.key(), answer, clock_.steady_now());
  }
  for (Done& done : waiting.mapped()) done(answer, 0);
}

}  // namespace osb::egress
