#include "containerd/protobuf.h"

#include <limits>
#include <utility>

namespace osb::containerd {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr int kVarintBytes = 10;

}  // namespace

void ProtoWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>((value & 0x7f) | 0x80);
  out_ += static_cast<char>(value);
}

ProtoWriter& ProtoWriter::number(std::uint32_t field, std::uint64_t value) {
  if (value == 0) return *this;
  varint(std::uint64_t{field} << 3 | kVarint);
  varint(value);
  return *this;
}

ProtoWriter& ProtoWriter::text(std::uint32_t field, std::string_view value) {
  return value.empty() ? *this : item(field, value);
}

ProtoWriter& ProtoWriter::item(std::uint32_t field, std::string_view value) {
  varint(std::uint64_t{field} << 3 | kBytes);
  varint(value.size());
  out_ += value;
  return *this;
}

ProtoWriter& ProtoWriter::entries(std::uint32_t field, const std::map<std::string, std::string>& map) {
  for (const auto& [key, value] : map) message(field, ProtoWriter().text(1, key).text(2, value));
  return *this;
}

bool ProtoReader::fail_here() {
  failed_ = true;
  left_ = {};
  return false;
}

bool ProtoReader::varint(std::uint64_t& value) {
  value = 0;
  for (int i = 0; i < kVarintBytes && !left_.empty(); ++i) {
    const auto byte = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << (7 * i);  // bits beyond the 64th are dropped, as elsewhere
    if (byte < 0x80) return true;
  }
  return fail_here();
}

bool ProtoReader::next(ProtoField& field) {
  if (left_.empty()) return false;
  std::uint64_t tag = 0;
  if (!varint(tag)) return false;
  field = {};
  if (tag >> 3 == 0 || tag >> 3 > std::numeric_limits<std::uint32_t>::max()) return fail_here();
  field.number = static_cast<std::uint32_t>(tag >> 3);
  std::uint64_t size = 0;
  switch (tag & 7) {
    case kVarint:
      return varint(field.value);
    case kFixed64:
      size = 8;
      break;
    case kFixed32:
      size = 4;
      break;
    case kBytes:
      if (!varint(size)) return false;
      break;
    default:
      return fail_here();
  }
  if (size > left_.size()) return fail_here();
  field.is_bytes = (tag & 7) == kBytes;
  if (!field.is_bytes) field.number = 0;  // the API has no such fields: unknown, whatever the number is
  field.bytes = left_.substr(0, static_cast<std::size_t>(size));
  left_.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

Result<void> ProtoReader::finish() const {
  if (failed_) return fail(Code::InvalidRequest, "an answer is no message of Protocol Buffers");
  return {};
}

Result<void> read_entry(std::string_view bytes, std::map<std::string, std::string>& into) {
  std::string key, value;
  ProtoReader in(bytes);
  for (ProtoField field; in.next(field);) {
    if (field.is_text(1)) key = field.bytes;
    if (field.is_text(2)) value = field.bytes;
  }
  if (auto done = in.finish(); !done) return done;
  into.insert_or_assign(std::move(key), std::move(value));
  return {};
}

}  // namespace osb::containerd
