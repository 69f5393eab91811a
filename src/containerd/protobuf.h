#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::containerd {

// Protocol Buffers (proto3) as far as containerd's API needs them: numbers, texts, messages and maps of texts.
class ProtoWriter {
 public:
  // 0 and "" are what an absent field means: they are not written.
  ProtoWriter& number(std::uint32_t field, std::uint64_t value);
  ProtoWriter& text(std::uint32_t field, std::string_view value);
  // An element of a repeated field, or a message: written even if it is empty.
  ProtoWriter& item(std::uint32_t field, std::string_view value);
  ProtoWriter& message(std::uint32_t field, const ProtoWriter& value) { return item(field, value.out_); }
  ProtoWriter& entries(std::uint32_t field, const std::map<std::string, std::string>& map);

  const std::string& bytes() const { return out_; }

 private:
  void varint(std::uint64_t value);
  std::string out_;
};

// One field as it was received. A field of another type than the reader expects counts as unknown.
struct ProtoField {
  std::uint32_t number = 0;
  bool is_bytes = false;
  std::uint64_t value = 0;  // of a number
  std::string_view bytes;   // of a text or a message; lives as long as the message that is read

  bool is_number(std::uint32_t wanted) const { return number == wanted && !is_bytes; }
  bool is_text(std::uint32_t wanted) const { return number == wanted && is_bytes; }
};

// The fields of a message, one after the other.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : left_(bytes) {}

  // The next field. False at the end, and when the rest is no message: see finish().
  bool next(ProtoField& field);
  // Code::InvalidRequest when the bytes were no message.
  Result<void> finish() const;

 private:
  bool varint(std::uint64_t& value);
  bool fail_here();

  std::string_view left_;
  bool failed_ = false;
};

// An entry of a map of texts.
Result<void> read_entry(std::string_view bytes, std::map<std::string, std::string>& into);

}  // namespace osb::containerd
