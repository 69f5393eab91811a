#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "egress/dns/name.h"

namespace osb::egress {

// Numbers of the protocol.
enum class RecordType : std::uint16_t {
  A = 1,
  NS = 2,
  CNAME = 5,
  SOA = 6,
  PTR = 12,
  MX = 15,
  TXT = 16,
  AAAA = 28,
  SRV = 33,
  DNAME = 39,
  OPT = 41,
  RRSIG = 46,
  NSEC = 47,
  NSEC3 = 50,
  SVCB = 64,
  HTTPS = 65,
  IXFR = 251,
  AXFR = 252,
  ANY = 255,
};
enum class Rcode : std::uint8_t { NoError = 0, FormErr = 1, ServFail = 2, NxDomain = 3, NotImp = 4, Refused = 5 };

inline constexpr std::uint16_t kClassIn = 1;
inline constexpr std::size_t kDnsHeader = 12;
inline constexpr std::uint16_t kFlagResponse = 0x8000;
inline constexpr std::uint16_t kOpcodeMask = 0x7800;
inline constexpr std::uint16_t kFlagTruncated = 0x0200;
inline constexpr std::uint16_t kFlagRecursionDesired = 0x0100;
inline constexpr std::uint16_t kFlagRecursionAvailable = 0x0080;
inline constexpr std::uint16_t kFlagAuthentic = 0x0020;
inline constexpr std::uint16_t kFlagCheckingDisabled = 0x0010;

// A question as upstream servers and the cache see it: the name in lower case, the type, and the two bits that change
// answers. Nothing else of a sandbox's message goes out.
class Question {
 public:
  Question() = default;
  Question(std::string_view lower_name, RecordType type, bool dnssec_ok, bool checking_disabled);

  std::string_view name() const { return {key_.data(), size_ - kSuffix}; }
  RecordType type() const { return type_; }
  bool dnssec_ok() const { return dnssec_ok_; }
  bool checking_disabled() const { return checking_disabled_; }
  std::string_view key() const { return {key_.data(), size_}; }  // equal for equal questions

 private:
  static constexpr std::size_t kSuffix = 3;
  std::array<char, kMaxName + kSuffix> key_;
  std::size_t size_ = 0;
  RecordType type_ = RecordType::A;
  bool dnssec_ok_ = false, checking_disabled_ = false;
};

// A sandbox's message.
struct Query {
  enum class Problem : std::uint8_t {
    None,
    Ignore,  // no query: an answer to it could loop
    FormErr,
    NotImp,
    BadVersion,  // of EDNS
  };
  Problem problem = Problem::None;
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  bool has_question = false;  // `asked`, `type` and `question` are set
  NameBuffer asked = {};      // as written: answers repeat it
  std::uint16_t type = 0;
  std::uint16_t record_class = 0;
  bool edns = false;
  std::uint16_t udp_size = 512;  // of the largest answer that the asker takes
  bool dnssec_ok = false;
  Question question = {};
  std::chrono::steady_clock::time_point came = {};  // to us; parse_query does not set it
};

// Strict: one question, no records but EDNS and at most one more additional one, nothing behind the message.
void parse_query(std::string_view message, Query& out);

// The message that asks an upstream server.
void encode_question(std::string& out, const Question& question, std::uint16_t id);

}  // namespace osb::egress
