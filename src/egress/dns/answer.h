#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "egress/dns/query.h"
#include "egress/dns/response.h"

namespace osb::egress {

// The part of an upstream response that answers a question, ready to be sent: the chain of aliases from the question's
// name, the records at its end, and for a negative answer the authority's SOA. Everything else of the response is left
// out. Immutable and shared: one answer serves every sandbox that asks.
class Answer {
 public:
  struct Address {
    IpAddress address;
    std::uint32_t ttl = 0;
    std::uint32_t piece = 0;  // of the record
  };

  // `number`: of no other answer.
  Answer(const Question& question, const Response& response, std::uint64_t number = 0);

  Rcode rcode() const { return rcode_; }
  const std::vector<Address>& addresses() const { return addresses_; }
  // How long it may be given out again; 0: not at all.
  std::uint32_t ttl() const { return ttl_; }
  std::uint64_t number() const { return number_; }
  std::size_t size() const { return body_.size(); }  // bytes of its records
  // Calls `f` with (the bytes of a record without its lifetime, how many of them its author can choose) for each record
  // that askers may be shown.
  template <typename F>
  void for_each_told(F f) const;
  bool has_records() const { return answer_count_ > 0; }

  // The message for a query, as it is `age` seconds after the answer was made. Addresses whose place in `hidden` is
  // true are left out. A message longer than `limit` is truncated: the asker then comes by TCP.
  void encode(std::string& out, const Query& query, std::uint32_t age, const std::vector<bool>& hidden,
              std::size_t limit) const;

 private:
  struct Piece {
    std::uint32_t begin = 0, end = 0;  // in body_
    std::uint32_t ttl_at = 0;          // in body_
    std::uint32_t ttl = 0;
  };

  // In front of a record's data and in every record: a pointer to its owner, type, class and length.
  static constexpr std::size_t kFixed = 8;

  void add(const Question& question, const Record& record, std::string_view data);
  // False: no record of the wanted type is at the end of the chain.
  bool add_chain(const Question& question, const Response& response);
  void add_authority(const Question& question, const Response& response);

  std::uint64_t number_;
  Rcode rcode_ = Rcode::ServFail;
  bool authentic_ = false;
  std::string body_;  // the records behind the question; owners point to names before them, never into address records
  std::vector<Piece> pieces_;
  std::vector<Address> addresses_;
  std::uint16_t answer_count_ = 0;
  std::uint32_t ttl_ = 0;
  std::vector<std::pair<std::string, std::uint16_t>> targets_;  // of aliases, with their places in a message
};

template <typename F>
void Answer::for_each_told(F f) const {
  std::string content;
  auto address = addresses_.begin();
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    const bool has_address = address != addresses_.end() && address->piece == i;
    const bool never_shown = has_address && address->address.v6;
    if (has_address) ++address;
    if (never_shown) continue;
    const Piece& piece = pieces_[i];
    content.assign(body_, piece.begin, piece.ttl_at - piece.begin);
    content.append(body_, piece.ttl_at + sizeof(std::uint32_t), piece.end - piece.ttl_at - sizeof(std::uint32_t));
    f(std::string_view(content), content.size() - std::min(content.size(), kFixed));
  }
}

// Answers without records.
struct PlainReply {
  Rcode rcode = Rcode::ServFail;
  bool recursion_available = true;
  bool blocked = false;  // tells askers that use EDNS that a policy denies the name (RFC 8914)
};
void encode_reply(std::string& out, const Query& query, const PlainReply& reply);
// The reply to a message with a problem; empty: none is sent.
void encode_problem(std::string& out, const Query& query);

}  // namespace osb::egress
