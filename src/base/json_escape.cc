#include "base/json_escape.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/utf8.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace osb {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

std::size_t plain_tail(const char* p, std::size_t from, std::size_t size) {
  while (from < size && is_plain(p[from])) ++from;
  return from;
}

// Where the output goes: a growing string, or a caller's buffer.
struct StringSink {
  std::string& out;
  void put(const char* p, std::size_t n) { out.append(p, n); }
};

struct BufferSink {
  char* out;
  void put(const char* p, std::size_t n) {
    std::memcpy(out, p, n);
    out += n;
  }
};

template <typename Sink>
void put_escape(Sink& sink, unsigned code) {
  static constexpr char kDigits[] = "0123456789abcdef";
  char two[2] = {'\\', 0};
  switch (code) {
    case '"':
    case '\\':
      two[1] = static_cast<char>(code);
      break;
    case '\n':
      two[1] = 'n';
      break;
    case '\r':
      two[1] = 'r';
      break;
    case '\t':
      two[1] = 't';
      break;
    case '\b':
      two[1] = 'b';
      break;
    case '\f':
      two[1] = 'f';
      break;
    default: {
      const char six[6] = {
          '\\', 'u', kDigits[code >> 12], kDigits[code >> 8 & 15], kDigits[code >> 4 & 15], kDigits[code & 15]};
      return sink.put(six, 6);
    }
  }
  sink.put(two, 2);
}

// The code point when a well-formed sequence is a line break for some client, else 0.
unsigned line_break(const char* p, std::size_t length) {
  if (length == 2) return std::memcmp(p, "\xC2\x85", 2) == 0 ? 0x85 : 0;
  if (length == 3 && std::memcmp(p, "\xE2\x80", 2) == 0) {
    if (p[2] == '\xA8') return 0x2028;
    if (p[2] == '\xA9') return 0x2029;
  }
  return 0;
}

template <typename Sink>
void escape(Sink& sink, std::string_view bytes) {
  const char* p = bytes.data();
  const char* const end = p + bytes.size();
  const char* run = p;  // not yet written, nothing in it needs escaping
  const auto flush = [&] {
    if (p != run) sink.put(run, static_cast<std::size_t>(p - run));
  };
  while (p < end) {
    p += detail::plain_prefix(p, static_cast<std::size_t>(end - p));
    // Text in other scripts comes in stretches: stay here rather than start a wide scan for every character.
    while (p < end && static_cast<unsigned char>(*p) >= 0x80) {
      const std::size_t length = utf8_sequence_length(p, end);
      const unsigned code = length == 0 ? 0 : line_break(p, length);
      if (length != 0 && code == 0) {
        p += length;
        continue;
      }
      flush();
      if (length == 0) {
        sink.put(kReplacement.data(), kReplacement.size());
      } else {
        put_escape(sink, code);
      }
      p += length == 0 ? 1 : length;
      run = p;
    }
    if (p < end && !is_plain(*p)) {
      flush();
      put_escape(sink, static_cast<unsigned char>(*p));
      run = ++p;
    }
  }
  flush();
}

}  // namespace

namespace detail {

std::size_t plain_prefix_portable(const char* p, std::size_t size) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHigh = 0x8080808080808080;
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, p + i, 8);
    // Each term sets the top bit of a byte that is special. A borrow may set it for a plain neighbour too, but only
    // next to a special byte: so "none" is exact, and otherwise the bytes are looked at one by one.
    const std::uint64_t quote = (word ^ (kOnes * '"')) - kOnes;
    const std::uint64_t slash = (word ^ (kOnes * '\\')) - kOnes;
    if ((((word - kOnes * 0x20) | quote | slash | word) & kHigh) != 0) break;
  }
  return plain_tail(p, i, size);
}

#if defined(__SSE2__)

std::size_t plain_prefix(const char* p, std::size_t size) {
  const __m128i space = _mm_set1_epi8(0x20);
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i slash = _mm_set1_epi8('\\');
  const auto special = [&](std::size_t at) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + at));
    // Bytes are compared as signed: below 0x20 are the controls and all of non-ASCII.
    return _mm_or_si128(_mm_cmplt_epi8(v, space), _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
  };
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    const __m128i any =
        _mm_or_si128(_mm_or_si128(special(i), special(i + 16)), _mm_or_si128(special(i + 32), special(i + 48)));
    if (_mm_movemask_epi8(any) != 0) break;
  }
  for (; i + 16 <= size; i += 16) {
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(special(i)));
    if (mask != 0) return i + static_cast<std::size_t>(std::countr_zero(mask));
  }
  return plain_tail(p, i, size);
}

#else

std::size_t plain_prefix(const char* p, std::size_t size) { return plain_prefix_portable(p, size); }

#endif

}  // namespace detail

void append_json_string(std::string& out, std::string_view bytes) {
  out.push_back('"');
  StringSink sink{out};
  escape(sink, bytes);
  out.push_back('"');
}

char* write_json_escaped(char* out, std::string_view bytes) {
  BufferSink sink{out};
  escape(sink, bytes);
  return sink.out;
}

std::string in_quotes(std::string_view bytes, std::size_t limit) {
  std::string out;
  append_json_string(out, bytes.substr(0, limit));
  if (bytes.size() > limit) out += "...";
  return out;
}

}  // namespace osb
