#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "egress/dns/query.h"
#include "egress/dns/reader.h"
#include "egress/dns/response.h"

namespace osb::egress::testing {

// Messages for tests, written by hand: they may be wrong.
struct TestRecord {
  std::string owner;  // text
  RecordType type = RecordType::A;
  std::uint32_t ttl = 60;
  std::string data;  // wire form
};

inline std::string wire(std::string_view text) { return *name_from_text(text); }

inline std::string address_data(std::string_view text) {
  const IpAddress address = *parse_ip_address(text);
  return std::string(reinterpret_cast<const char*>(address.bytes.data()), address.v6 ? 16 : 4);
}

inline TestRecord a(std::string owner, std::string_view address, std::uint32_t ttl = 60) {
  return {std::move(owner), RecordType::A, ttl, address_data(address)};
}
inline TestRecord aaaa(std::string owner, std::string_view address, std::uint32_t ttl = 60) {
  return {std::move(owner), RecordType::AAAA, ttl, address_data(address)};
}
inline TestRecord cname(std::string owner, std::string_view target, std::uint32_t ttl = 60) {
  return {std::move(owner), RecordType::CNAME, ttl, wire(target)};
}
inline TestRecord soa(std::string owner, std::uint32_t minimum, std::uint32_t ttl = 300) {
  std::string data = wire("ns." + owner) + wire("admin." + owner);
  for (const std::uint32_t number : {1u, 2u, 3u, 4u, minimum}) put_u32(data, number);
  return {std::move(owner), RecordType::SOA, ttl, std::move(data)};
}

inline void put_record(std::string& out, const TestRecord& record) {
  out += wire(record.owner);
  put_u16(out, static_cast<std::uint16_t>(record.type));
  put_u16(out, kClassIn);
  put_u32(out, record.ttl);
  put_u16(out, static_cast<std::uint16_t>(record.data.size()));
  out += record.data;
}

struct TestResponse {
  std::uint16_t id = 0;
  std::uint16_t flags = 0x8180;
  std::string name = {};
  RecordType type = RecordType::A;
  std::vector<TestRecord> answers = {};
  std::vector<TestRecord> authority = {};
  std::vector<TestRecord> additional = {};
};

inline std::string message(const TestResponse& response) {
  std::string out;
  put_u16(out, response.id);
  put_u16(out, response.flags);
  for (const std::size_t count :
       {std::size_t{1}, response.answers.size(), response.authority.size(), response.additional.size()}) {
    put_u16(out, static_cast<std::uint16_t>(count));
  }
  out += wire(response.name);
  put_u16(out, static_cast<std::uint16_t>(response.type));
  put_u16(out, kClassIn);
  for (const auto* section : {&response.answers, &response.authority, &response.additional}) {
    for (const TestRecord& record : *section) put_record(out, record);
  }
  return out;
}

inline std::string question(std::string_view name, RecordType type, std::uint16_t id = 7) {
  std::string out;
  encode_question(out, Question(wire(name), type, false, false), id);
  return out;
}

inline Query query(std::string_view name, RecordType type) {
  Query out;
  parse_query(question(name, type), out);
  return out;
}

}  // namespace osb::egress::testing
