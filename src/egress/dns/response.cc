#include "egress/dns/response.h"

#include "egress/dns/reader.h"

namespace osb::egress {
namespace {

constexpr std::size_t kMaxRecords = 512;  // of one section; more come from nobody who means well
constexpr std::uint32_t kLongestTtl = 0x7fffffff;

// How data with names is laid out, for the types that may be compressed (RFC 3597, section 4) and for SRV and DNAME.
struct Layout {
  std::uint16_t type;
  std::uint8_t before;   // bytes before the first name
  std::uint8_t strings;  // character strings after those bytes
  std::uint8_t names;
  std::uint8_t after;  // bytes behind the last name
};
constexpr Layout kLayouts[] = {
    {2, 0, 0, 1, 0},   // NS
    {3, 0, 0, 1, 0},   // MD
    {4, 0, 0, 1, 0},   // MF
    {5, 0, 0, 1, 0},   // CNAME
    {6, 0, 0, 2, 20},  // SOA
    {7, 0, 0, 1, 0},   // MB
    {8, 0, 0, 1, 0},   // MG
    {9, 0, 0, 1, 0},   // MR
    {12, 0, 0, 1, 0},  // PTR
    {14, 0, 0, 2, 0},  // MINFO
    {15, 2, 0, 1, 0},  // MX
    {17, 0, 0, 2, 0},  // RP
    {18, 2, 0, 1, 0},  // AFSDB
    {21, 2, 0, 1, 0},  // RT
    {26, 2, 0, 2, 0},  // PX
    {33, 6, 0, 1, 0},  // SRV
    {35, 4, 3, 1, 0},  // NAPTR
    {36, 2, 0, 1, 0},  // KX
    {39, 0, 0, 1, 0},  // DNAME
};

const Layout* layout_of(RecordType type) {
  for (const Layout& each : kLayouts) {
    if (each.type == static_cast<std::uint16_t>(type)) return &each;
  }
  return nullptr;
}

// False: the data is broken.
bool read_data(std::string_view message, std::size_t begin, std::size_t size, RecordType type, std::string& out) {
  const Layout* layout = layout_of(type);
  if (layout == nullptr) {
    out = message.substr(begin, size);
    if (type == RecordType::A) return size == 4;
    if (type == RecordType::AAAA) return size == 16;
    return true;
  }
  WireReader in(message.substr(0, begin + size));
  in.skip(begin);
  out = in.bytes(layout->before);
  for (unsigned i = 0; i < layout->strings; ++i) {
    const std::uint8_t length = in.u8();
    out.push_back(static_cast<char>(length));
    out += in.bytes(length);
  }
  for (unsigned i = 0; i < layout->names; ++i) out += in.name();
  out += in.bytes(layout->after);
  return !in.failed() && in.at_end();
}

// Types from long ago whose data holds names in other ways.
bool is_unreadable(RecordType type) {
  return static_cast<std::uint16_t>(type) == 24 || static_cast<std::uint16_t>(type) == 30;  // SIG, NXT
}

bool read_records(WireReader& in, std::string_view message, unsigned count, std::vector<Record>& out) {
  if (count > kMaxRecords) return false;
  for (unsigned i = 0; i < count; ++i) {
    Record record;
    record.owner = in.name();
    record.type = static_cast<RecordType>(in.u16());
    const std::uint16_t record_class = in.u16();
    record.ttl = in.u32();
    if (record.ttl > kLongestTtl) record.ttl = 0;  // RFC 2181, section 8
    const std::uint16_t size = in.u16();
    const std::size_t begin = in.at();
    in.skip(size);
    if (in.failed()) return false;
    if (record_class != kClassIn || is_unreadable(record.type)) continue;
    if (!read_data(message, begin, size, record.type, record.data)) return false;
    out.push_back(std::move(record));
  }
  return true;
}

}  // namespace

std::optional<std::uint16_t> message_id(std::string_view message) {
  if (message.size() < kDnsHeader) return std::nullopt;
  return WireReader(message).u16();
}

std::optional<Response> parse_response(std::string_view message) {
  WireReader in(message);
  Response out;
  out.id = in.u16();
  const std::uint16_t flags = in.u16();
  const unsigned questions = in.u16(), answers = in.u16(), authority = in.u16();
  in.skip(2);
  if (in.failed() || (flags & kFlagResponse) == 0 || questions != 1) return std::nullopt;
  out.truncated = (flags & kFlagTruncated) != 0;
  out.authentic = (flags & kFlagAuthentic) != 0;
  out.rcode = flags & 0xf;
  out.name = in.name();
  out.type = static_cast<RecordType>(in.u16());
  if (in.u16() != kClassIn || in.failed()) return std::nullopt;
  if (out.truncated) return out;
  if (!read_records(in, message, answers, out.answers)) return std::nullopt;
  if (!read_records(in, message, authority, out.authority)) return std::nullopt;
  return out;
}

}  // namespace osb::egress
