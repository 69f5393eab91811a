#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "egress/dns/query.h"

namespace osb::egress {

struct Record {
  std::string owner = {};  // lower case
  RecordType type = RecordType::A;
  std::uint32_t ttl = 0;
  std::string data = {};  // without compression
};

// An upstream server's message.
struct Response {
  std::uint16_t id = 0;
  bool truncated = false;
  bool authentic = false;
  std::uint16_t rcode = 0;
  std::string name = {};  // of the question, lower case
  RecordType type = RecordType::A;
  std::vector<Record> answers = {};
  std::vector<Record> authority = {};
};

// Nothing if it is no well-formed response with one question of class IN. Of a truncated message the records are not
// read. Records of other classes, and of types whose names cannot be read, are left out; additional records are not
// read at all.
std::optional<Response> parse_response(std::string_view message);

// The id of a message, without reading the rest.
std::optional<std::uint16_t> message_id(std::string_view message);

}  // namespace osb::egress
