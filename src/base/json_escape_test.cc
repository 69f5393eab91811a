#include "base/json_escape.h"

#include <random>

#include <gtest/gtest.h>

namespace osb {
namespace {

// The rules of the header one code point at a time, with a decoder of its own: slow and obvious.
std::string reference(std::string_view bytes) {
  std::string out = "\"";
  const auto unicode = [&](unsigned code) {
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", code);
    out += text;
  };
  for (std::size_t i = 0; i < bytes.size();) {
    const unsigned lead = static_cast<unsigned char>(bytes[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    unsigned code = length == 1 ? lead : length == 2 ? lead & 31 : length == 3 ? lead & 15 : lead & 7;
    bool good = length != 0 && i + length <= bytes.size();
    for (std::size_t k = 1; good && k < length; ++k) {
      const unsigned next = static_cast<unsigned char>(bytes[i + k]);
      good = next >> 6 == 2;
      code = code << 6 | (next & 63);
    }
    const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && code >= smallest[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (!good) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    const std::string_view shorts = "\"\\\n\r\t\b\f";
    if (const auto at = length == 1 ? shorts.find(bytes[i]) : std::string_view::npos; at != std::string_view::npos) {
      out += '\\';
      out += "\"\\nrtbf"[at];
    } else if (code < 0x20 || code == 0x85 || code == 0x2028 || code == 0x2029) {
      unicode(code);
    } else {
      out += bytes.substr(i, length);
    }
    i += length;
  }
  return out + "\"";
}

std::string escaped(std::string_view bytes) {
  std::string out;
  append_json_string(out, bytes);
  return out;
}

std::string escaped_in_buffer(std::string_view bytes) {
  std::string buffer(max_json_escaped_size(bytes.size()), '#');
  const char* end = write_json_escaped(buffer.data(), bytes);
  return "\"" + buffer.substr(0, static_cast<std::size_t>(end - buffer.data())) + "\"";
}

TEST(JsonEscape, WritesWhatTheContractAsksFor) {
  struct {
    const char* why;
    std::string_view in;
    std::string_view want;
  } rows[] = {
      {"empty", "", R"("")"},
      {"plain", "hello", R"("hello")"},
      {"quote and backslash", "a\"b\\c", R"("a\"b\\c")"},
      {"short escapes", "\n\r\t\b\f", R"("\n\r\t\b\f")"},
      {"NUL and ESC", std::string_view("\0\x1b", 2), R"("\u0000\u001b")"},
      {"slash and DEL stay", "/\x7f", "\"/\x7f\""},
      {"next line", "a\xC2\x85z", R"("a\u0085z")"},
      {"other C1 controls stay", "\xC2\x84\xC2\x86", "\"\xC2\x84\xC2\x86\""},
      {"line and paragraph separator", "\xE2\x80\xA8\xE2\x80\xA9", R"("\u2028\u2029")"},
      {"their neighbours stay", "\xE2\x80\xA7\xE2\x80\xAA", "\"\xE2\x80\xA7\xE2\x80\xAA\""},
      {"four bytes", "\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""},
      {"one U+FFFD per bad byte", "\xE2\x82x", "\"\xEF\xBF\xBD\xEF\xBF\xBDx\""},
      {"surrogate", "\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"overlong", "\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(escaped(row.in), row.want) << row.why;
    EXPECT_EQ(escaped_in_buffer(row.in), row.want) << row.why;
    EXPECT_EQ(reference(row.in), row.want) << row.why;
  }
}

TEST(JsonEscape, AppendsBehindWhatIsThere) {
  std::string out = "{\"text\":";
  append_json_string(out, "x");
  EXPECT_EQ(out, "{\"text\":\"x\"");
}

TEST(JsonEscape, AgreesWithTheSlowReferenceOnRandomBytes) {
  std::mt19937 random(20250102);
  const std::string_view pieces[] = {"plain text of some length, longer than one vector",
                                     "\"",
                                     "\\",
                                     "\n",
                                     "\xC2\x85",
                                     "\xE2\x80\xA8",
                                     "\xE4\xB8\xAD\xE6\x96\x87",
                                     "\xF0\x9F\x98\x80",
                                     "a"};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    const std::size_t size = random() % 200;
    const int kind = round % 4;
    while (bytes.size() < size) {
      if (kind == 0) {
        bytes.push_back(static_cast<char>(random()));
      } else if (kind == 1) {
        bytes.push_back(static_cast<char>(random() % 40 == 0 ? random() : 'a' + random() % 26));
      } else if (kind == 2) {
        bytes += pieces[random() % std::size(pieces)];
      } else {  // mostly lead and continuation bytes: good and bad sequences
        bytes.push_back(static_cast<char>(random() % 2 ? 0x80 + random() % 64 : 0xC0 + random() % 64));
      }
    }
    const std::string want = reference(bytes);
    ASSERT_EQ(escaped(bytes), want);
    ASSERT_EQ(escaped_in_buffer(bytes), want);
    ASSERT_EQ(detail::plain_prefix(bytes.data(), bytes.size()),
              detail::plain_prefix_portable(bytes.data(), bytes.size()));
  }
}

TEST(JsonEscape, PlainPrefixStopsAtASpecialByteInAnyPosition) {
  for (std::size_t size = 0; size < 150; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      for (const char special : {'"', '\\', '\x1f', '\0', '\x80', '\xff'}) {
        std::string bytes(size, ' ');  // the smallest plain byte: most likely to be hit by a borrow
        bytes[at] = special;
        ASSERT_EQ(detail::plain_prefix(bytes.data(), size), at);
        ASSERT_EQ(detail::plain_prefix_portable(bytes.data(), size), at);
      }
    }
  }
}

TEST(JsonEscape, PlainPrefixTakesEveryPlainByte) {
  for (int byte = 0x20; byte < 0x80; ++byte) {
    if (byte == '"' || byte == '\\') continue;
    const std::string bytes(100, static_cast<char>(byte));
    EXPECT_EQ(detail::plain_prefix(bytes.data(), 100), 100u) << byte;
    EXPECT_EQ(detail::plain_prefix_portable(bytes.data(), 100), 100u) << byte;
  }
}

TEST(JsonEscape, TheWorstCaseFitsTheBufferExactly) {
  const std::string controls(100, '\x01');
  EXPECT_EQ(escaped_in_buffer(controls).size(), max_json_escaped_size(100) + 2);
}

TEST(JsonEscape, QuotedCutsLongStrings) {
  EXPECT_EQ(in_quotes("a\nb"), R"("a\nb")");
  EXPECT_EQ(in_quotes("abcdef", 3), R"("abc"...)");
}

}  // namespace
}  // namespace osb
