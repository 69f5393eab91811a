#include "egress/dns/query.h"

#include <algorithm>

#include "egress/dns/reader.h"

namespace osb::egress {
namespace {

constexpr std::uint16_t kUpstreamSize = 1232;  // fits every path without fragments
constexpr std::uint32_t kDnssecOk = 0x8000;

// EDNS and one other (a transaction signature, which upstream would not know) are skipped over.
Query::Problem read_additional(WireReader& in, unsigned count, Query& out) {
  for (unsigned i = 0; i < count; ++i) {
    NameBuffer owner;
    in.name(owner);
    const auto type = static_cast<RecordType>(in.u16());
    const std::uint16_t size = in.u16();
    const std::uint32_t ttl = in.u32();
    in.skip(in.u16());
    if (in.failed()) return Query::Problem::FormErr;
    if (type != RecordType::OPT) continue;
    if (out.edns || owner.size != 1) return Query::Problem::FormErr;
    out.edns = true;
    out.udp_size = std::max<std::uint16_t>(size, 512);
    out.dnssec_ok = (ttl & kDnssecOk) != 0;
    if ((ttl >> 16 & 0xff) != 0) return Query::Problem::BadVersion;
  }
  return Query::Problem::None;
}

}  // namespace

Question::Question(std::string_view lower_name, RecordType type, bool dnssec_ok, bool checking_disabled)
    : size_(lower_name.size() + kSuffix), type_(type), dnssec_ok_(dnssec_ok), checking_disabled_(checking_disabled) {
  std::copy(lower_name.begin(), lower_name.end(), key_.begin());
  set_u16(key_.data() + lower_name.size(), static_cast<std::uint16_t>(type));
  key_[size_ - 1] = static_cast<char>((dnssec_ok ? 1 : 0) | (checking_disabled ? 2 : 0));
}

void parse_query(std::string_view message, Query& out) {
  out.problem = Query::Problem::Ignore;
  out.has_question = out.edns = out.dnssec_ok = false;
  out.udp_size = 512;
  if (message.size() < kDnsHeader) return;
  WireReader in(message);
  out.id = in.u16();
  out.flags = in.u16();
  const unsigned questions = in.u16(), answers = in.u16(), authority = in.u16(), additional = in.u16();
  if ((out.flags & kFlagResponse) != 0) return;
  out.problem = Query::Problem::NotImp;
  if ((out.flags & kOpcodeMask) != 0) return;
  out.problem = Query::Problem::FormErr;
  if (questions != 1 || answers != 0 || authority != 0 || additional > 2) return;
  in.name(out.asked);
  out.type = in.u16();
  out.record_class = in.u16();
  if (in.failed()) return;
  out.has_question = true;
  out.problem = read_additional(in, additional, out);
  if (out.problem == Query::Problem::None && !in.at_end()) out.problem = Query::Problem::FormErr;
  if (out.problem != Query::Problem::None) return;
  NameBuffer lower = out.asked;
  for (std::size_t at = 0; at < lower.size;) {
    const std::size_t end = at + 1 + static_cast<std::uint8_t>(lower.bytes[at]);
    for (++at; at < end; ++at) lower.bytes[at] = lower_byte(lower.bytes[at]);
  }
  out.question = Question(lower.view(), static_cast<RecordType>(out.type), out.dnssec_ok,
                          (out.flags & kFlagCheckingDisabled) != 0);
}

void encode_question(std::string& out, const Question& question, std::uint16_t id) {
  out.clear();
  put_u16(out, id);
  put_u16(out, static_cast<std::uint16_t>(kFlagRecursionDesired |
                                          (question.checking_disabled() ? kFlagCheckingDisabled : 0)));
  for (const std::uint16_t count : {1, 0, 0, 1}) put_u16(out, count);
  out.append(question.name());
  put_u16(out, static_cast<std::uint16_t>(question.type()));
  put_u16(out, kClassIn);
  out.push_back('\0');
  put_u16(out, static_cast<std::uint16_t>(RecordType::OPT));
  put_u16(out, kUpstreamSize);
  put_u32(out, question.dnssec_ok() ? kDnssecOk : 0);
  put_u16(out, 0);
}

}  // namespace osb::egress
