#include "cli/file/encoding.h"

#include <cerrno>
#include <iconv.h>
#include <strings.h>

namespace osb::cli {

bool is_utf8(std::string_view name) {
  const std::string copy(name);
  for (const char* known : {"utf-8", "utf8", "utf_8", "ascii", "us-ascii"}) {
    if (::strcasecmp(copy.c_str(), known) == 0) return true;
  }
  return false;
}

Expected<std::string> convert_encoding(std::string_view text, const std::string& from, const std::string& to) {
  const iconv_t converter = ::iconv_open(to.c_str(), from.c_str());
  if (converter == reinterpret_cast<iconv_t>(-1)) {
    const std::string& unknown = is_utf8(from) ? to : from;
    return invalid("Unknown encoding '" + unknown + "'.", "'iconv -l' lists the names.");
  }
  std::string out, input(text);
  char* next = input.data();
  std::size_t left = input.size();
  bool ok = true;
  for (bool flush = false; ok;) {
    char buffer[4096];
    char* end = buffer;
    std::size_t room = sizeof buffer;
    const std::size_t done = ::iconv(converter, flush ? nullptr : &next, flush ? nullptr : &left, &end, &room);
    ok = done != static_cast<std::size_t>(-1) || errno == E2BIG;
    out.append(buffer, static_cast<std::size_t>(end - buffer));
    if (done == static_cast<std::size_t>(-1)) continue;
    if (flush) break;
    flush = true;
  }
  ::iconv_close(converter);
  if (!ok) return invalid("The text cannot be converted from " + from + " to " + to + ".");
  return out;
}

}  // namespace osb::cli
