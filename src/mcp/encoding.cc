#include "mcp/encoding.h"

#include <algorithm>
#include <cctype>

#include "base/base64.h"
#include "base/text.h"
#include "base/utf8.h"

namespace osb::mcp {
namespace {

std::string from_latin1(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char each : bytes) {
    const auto c = static_cast<unsigned char>(each);
    if (c < 0x80) {
      out += each;
    } else {
      out += static_cast<char>(0xC0 | (c >> 6));
      out += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return out;
}

Result<std::string> to_latin1(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      out += text[i];
    } else if ((c == 0xC2 || c == 0xC3) && i + 1 < text.size()) {
      out += static_cast<char>(((c & 0x03) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3F));
    } else {
      return fail(Code::InvalidRequest, "the content has characters that latin-1 does not have");
    }
  }
  return out;
}

std::string replace_invalid(std::string_view bytes) {
  std::string out;
  const char* const end = bytes.data() + bytes.size();
  for (const char* p = bytes.data(); p < end;) {
    const std::size_t length = utf8_sequence_length(p, end);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++p;
    } else {
      out.append(p, length);
      p += length;
    }
  }
  return out;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

Result<Encoding> parse_encoding(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_') plain += lower(c);
  }
  if (plain == "utf8") return Encoding::Utf8;
  if (plain == "ascii" || plain == "usascii") return Encoding::Ascii;
  if (plain == "latin1" || plain == "iso88591") return Encoding::Latin1;
  if (plain == "base64") return Encoding::Base64;
  return fail(Code::InvalidRequest, "encoding: expected utf-8, ascii, latin-1 or base64");
}

Result<std::string> to_text(std::string bytes, Encoding encoding, bool lossy) {
  if (encoding == Encoding::Base64) return encode_base64(bytes);
  if (encoding == Encoding::Latin1) return from_latin1(bytes);
  if (encoding == Encoding::Ascii && !is_ascii(bytes)) {
    return fail(Code::InvalidRequest, "the file is not ASCII; read it with encoding utf-8, latin-1 or base64");
  }
  if (find_invalid_utf8(bytes) == std::string_view::npos) return bytes;
  if (lossy) return replace_invalid(bytes);
  return fail(Code::InvalidRequest, "the file is not UTF-8 text; read it with encoding base64 or latin-1");
}

Result<std::string> to_bytes(std::string text, Encoding encoding) {
  if (encoding == Encoding::Latin1) return to_latin1(text);
  if (encoding == Encoding::Ascii && !is_ascii(text)) return fail(Code::InvalidRequest, "the content is not ASCII");
  if (encoding != Encoding::Base64) return text;
  auto bytes = decode_base64(text);
  if (!bytes) return fail(Code::InvalidRequest, "the content is not base64");
  return std::move(*bytes);
}

}  // namespace osb::mcp
