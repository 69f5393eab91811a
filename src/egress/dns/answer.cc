#include "egress/dns/answer.h"

#include <algorithm>
#include <cstring>

#include "egress/dns/reader.h"
#include "egress/dns/svcb.h"

namespace osb::egress {
namespace {

constexpr std::size_t kMaxAliases = 16;
constexpr std::size_t kMaxBody = 60'000;  // with the rest of a message below 64 KiB
constexpr std::uint32_t kLongestTtl = 86'400;
constexpr std::uint32_t kLongestNegativeTtl = 300;
constexpr std::uint16_t kPointer = 0xc000;
constexpr std::uint16_t kOurUdpSize = 1232;

// The header, the question and what EDNS adds at the end.
void begin_message(std::string& out, const Query& query, std::uint16_t flags, std::uint16_t answers,
                   std::uint16_t authority) {
  out.clear();
  put_u16(out, query.id);
  put_u16(out, flags);
  for (const std::uint16_t count :
       {std::uint16_t(query.has_question ? 1 : 0), answers, authority, std::uint16_t(query.edns ? 1 : 0)}) {
    put_u16(out, count);
  }
  if (!query.has_question) return;
  out += query.asked.view();
  put_u16(out, query.type);
  put_u16(out, query.record_class);
}

constexpr std::uint16_t kExtendedError = 15;  // an option of EDNS
constexpr std::uint16_t kBlocked = 15;        // an extended error

void end_message(std::string& out, const Query& query, std::uint8_t extended_rcode = 0, bool blocked = false) {
  if (!query.edns) return;
  out.push_back('\0');
  put_u16(out, static_cast<std::uint16_t>(RecordType::OPT));
  put_u16(out, kOurUdpSize);
  put_u32(out, std::uint32_t(extended_rcode) << 24 | (query.dnssec_ok ? 0x8000u : 0u));
  put_u16(out, blocked ? 6 : 0);
  if (!blocked) return;
  put_u16(out, kExtendedError);
  put_u16(out, 2);
  put_u16(out, kBlocked);
}

std::uint16_t reply_flags(const Query& query, Rcode rcode, bool recursion_available) {
  return static_cast<std::uint16_t>(
      kFlagResponse | (query.flags & (kOpcodeMask | kFlagRecursionDesired | kFlagCheckingDisabled)) |
      (recursion_available ? kFlagRecursionAvailable : 0) | static_cast<std::uint16_t>(rcode));
}

IpAddress address_of(const Record& record) {
  IpAddress out;
  if (record.type == RecordType::A) {
    std::memcpy(out.bytes.data(), record.data.data(), 4);
    return out;
  }
  std::memcpy(out.bytes.data(), record.data.data(), 16);
  return IpAddress::from_v6(out.bytes);
}

bool is_address(RecordType type) { return type == RecordType::A || type == RecordType::AAAA; }
bool is_service(RecordType type) { return type == RecordType::SVCB || type == RecordType::HTTPS; }

// The type that a signature covers.
RecordType covered(const Record& record) {
  if (record.data.size() < 2) return RecordType::OPT;
  return static_cast<RecordType>(static_cast<std::uint8_t>(record.data[0]) << 8 |
                                 static_cast<std::uint8_t>(record.data[1]));
}

std::uint32_t soa_minimum(const Record& soa) {
  if (soa.data.size() < 4) return 0;
  WireReader in(std::string_view(soa.data).substr(soa.data.size() - 4));
  return in.u32();
}

}  // namespace

Answer::Answer(const Question& question, const Response& response, std::uint64_t number)
    : number_(number), rcode_(static_cast<Rcode>(response.rcode)), authentic_(response.authentic), ttl_(kLongestTtl) {
  const bool found = add_chain(question, response);
  if (rcode_ == Rcode::NxDomain || !found) add_authority(question, response);
  targets_.clear();
  targets_.shrink_to_fit();
}

void Answer::add(const Question& question, const Record& record, std::string_view data) {
  const auto place = static_cast<std::uint32_t>(body_.size());
  if (place + record.owner.size() + data.size() > kMaxBody) return;
  Piece piece{.begin = place, .end = 0, .ttl_at = 0, .ttl = record.ttl};
  const auto target = std::ranges::find_if(targets_, [&](const auto& each) { return each.first == record.owner; });
  if (const auto suffix = find_suffix(question.name(), record.owner); suffix && record.owner.size() > 1) {
    put_u16(body_, static_cast<std::uint16_t>(kPointer | (kDnsHeader + *suffix)));
  } else if (target != targets_.end()) {
    put_u16(body_, static_cast<std::uint16_t>(kPointer | target->second));
  } else {
    body_ += record.owner;
  }
  put_u16(body_, static_cast<std::uint16_t>(record.type));
  put_u16(body_, kClassIn);
  piece.ttl_at = static_cast<std::uint32_t>(body_.size());
  put_u32(body_, record.ttl);
  put_u16(body_, static_cast<std::uint16_t>(data.size()));
  const std::size_t message_place = kDnsHeader + question.name().size() + 4 + body_.size();
  if (record.type == RecordType::CNAME && message_place < 0x3fff) {
    targets_.emplace_back(data, static_cast<std::uint16_t>(message_place));
  }
  body_ += data;
  piece.end = static_cast<std::uint32_t>(body_.size());
  if (is_address(record.type)) {
    addresses_.push_back({address_of(record), record.ttl, static_cast<std::uint32_t>(pieces_.size())});
  }
  pieces_.push_back(piece);
  ttl_ = std::min(ttl_, record.ttl);
}

bool Answer::add_chain(const Question& question, const Response& response) {
  std::vector<std::string_view> chain{question.name()};
  while (question.type() != RecordType::CNAME && chain.size() <= kMaxAliases) {
    const auto alias = std::ranges::find_if(response.answers, [&](const Record& each) {
      return each.type == RecordType::CNAME && each.owner == chain.back();
    });
    if (alias == response.answers.end() || std::ranges::find(chain, alias->data) != chain.end()) break;
    add(question, *alias, alias->data);
    chain.emplace_back(alias->data);
  }
  const std::size_t aliases = pieces_.size();
  for (const Record& each : response.answers) {
    if (each.owner != chain.back() || each.type != question.type()) continue;
    if (!is_service(each.type)) {
      add(question, each, each.data);
    } else if (const auto data = without_hints(each.data)) {
      add(question, each, *data);
    }
  }
  const bool found = pieces_.size() > aliases;
  if (question.dnssec_ok()) {
    for (const Record& each : response.answers) {
      // Changed records have no valid signature.
      const bool wanted = each.type == RecordType::RRSIG && !is_service(covered(each)) &&
                          std::ranges::find(chain, each.owner) != chain.end();
      if (wanted) add(question, each, each.data);
    }
  }
  answer_count_ = static_cast<std::uint16_t>(pieces_.size());
  return found;
}

void Answer::add_authority(const Question& question, const Response& response) {
  bool found = false;
  for (const Record& each : response.authority) {
    const bool proof = question.dnssec_ok() && (each.type == RecordType::NSEC || each.type == RecordType::NSEC3 ||
                                                each.type == RecordType::RRSIG);
    if (each.type != RecordType::SOA && !proof) continue;
    add(question, each, each.data);
    if (each.type != RecordType::SOA) continue;
    found = true;
    ttl_ = std::min({ttl_, soa_minimum(each), kLongestNegativeTtl});
  }
  if (!found) ttl_ = 0;  // RFC 2308, section 5
}

void Answer::encode(std::string& out, const Query& query, std::uint32_t age, const std::vector<bool>& hidden,
                    std::size_t limit) const {
  const auto hidden_count = static_cast<std::uint16_t>(std::ranges::count(hidden, true));
  std::uint16_t flags = reply_flags(query, rcode_, true);
  if (authentic_ && hidden_count == 0 && (query.dnssec_ok || (query.flags & kFlagAuthentic) != 0)) {
    flags |= kFlagAuthentic;
  }
  begin_message(out, query, flags, static_cast<std::uint16_t>(answer_count_ - hidden_count),
                static_cast<std::uint16_t>(pieces_.size() - answer_count_));
  const std::size_t head = out.size();
  std::size_t next_address = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (next_address < addresses_.size() && addresses_[next_address].piece == i) {
      const std::size_t place = next_address++;
      if (place < hidden.size() && hidden[place]) continue;
    }
    const std::size_t begin = out.size();
    out.append(body_, piece.begin, piece.end - piece.begin);
    set_u32(out.data() + begin + (piece.ttl_at - piece.begin), piece.ttl > age ? piece.ttl - age : 0);
  }
  end_message(out, query);
  if (out.size() <= limit) return;
  out.resize(head);
  set_u16(out.data() + 2, flags | kFlagTruncated);
  std::fill(out.begin() + 6, out.begin() + 10, '\0');
  end_message(out, query);
}

void encode_reply(std::string& out, const Query& query, const PlainReply& reply) {
  begin_message(out, query, reply_flags(query, reply.rcode, reply.recursion_available), 0, 0);
  end_message(out, query, 0, reply.blocked);
}

void encode_problem(std::string& out, const Query& query) {
  out.clear();
  switch (query.problem) {
    case Query::Problem::None:
    case Query::Problem::Ignore:
      return;
    case Query::Problem::FormErr:
    case Query::Problem::NotImp: {
      Query plain = query;
      plain.edns = false;
      const Rcode rcode = query.problem == Query::Problem::NotImp ? Rcode::NotImp : Rcode::FormErr;
      plain.has_question = plain.has_question && query.problem == Query::Problem::FormErr;
      begin_message(out, plain, reply_flags(plain, rcode, false), 0, 0);
      return;
    }
    case Query::Problem::BadVersion:
      begin_message(out, query, reply_flags(query, Rcode::NoError, false), 0, 0);
      end_message(out, query, 1);  // 16 is BADVERS: the upper eight bits are here
      return;
  }
}

}  // namespace osb::egress
