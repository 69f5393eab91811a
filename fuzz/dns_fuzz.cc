// DNS messages of sandboxes and of upstream servers. Whatever is sent back can be read again, an answer holds records
// of the question's chain only, and no name outgrows its limit.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "egress/dns/answer.h"
#include "egress/dns/svcb.h"

namespace {

using namespace osb::egress;

void check_answer(const Query& query, const Response& response) {
  const Answer answer(query.question, response);
  answer.for_each_told([](std::string_view content, std::size_t bytes) {
    if (bytes > content.size()) std::abort();
  });
  std::string out;
  for (const bool hide : {false, true}) {
    const std::vector<bool> hidden(answer.addresses().size(), hide);
    answer.encode(out, query, 1, hidden, 65'535);
    const auto again = parse_response(out);
    if (!again || again->name != query.question.name()) std::abort();
    if (hide && query.question.type() == RecordType::A && !again->answers.empty() &&
        again->answers.back().type == RecordType::A) {
      std::abort();
    }
    answer.encode(out, query, 1, hidden, 512);
    if (out.size() > 512) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static Query query;
  parse_query(input, query);
  std::string out;
  encode_problem(out, query);
  if (query.problem == Query::Problem::None) {
    if (name_text(query.question.name()).size() > kMaxName) std::abort();
    encode_reply(out, query, {});
    if (!parse_response(out) && query.record_class == kClassIn) std::abort();
    encode_question(out, query.question, 1);
    static Query again;
    parse_query(out, again);
    if (again.question.key() != query.question.key()) std::abort();
  }
  if (const auto response = parse_response(input)) {
    for (const bool dnssec : {false, true}) {
      encode_question(out, Question(response->name, response->type, dnssec, false), 7);
      static Query question;
      parse_query(out, question);
      if (question.problem != Query::Problem::None) std::abort();
      check_answer(question, *response);
    }
  }
  if (const auto kept = without_hints(input); kept && kept->size() > input.size()) std::abort();
  return 0;
}
