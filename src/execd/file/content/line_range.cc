#include "execd/file/content/line_range.h"

#include <algorithm>
#include <limits>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::execd {

LineRange::LineRange(UniqueFd file, std::uint64_t first, std::uint64_t count)
    : file_(std::move(file)),
      first_(first),
      end_(count > std::numeric_limits<std::uint64_t>::max() - first ? std::numeric_limits<std::uint64_t>::max()
                                                                     : first + count) {
  buffer_.resize(128 * 1024);
}

// Part of a wanted line, without its line break.
void LineRange::select(std::string& out, std::string_view bytes) {
  // A line exists once any byte of it, or its break, has been seen: only then is it joined to the one before.
  if (!line_begun_ && line_ > first_) out += '\n';
  line_begun_ = true;
  if (bytes.empty()) return;
  if (held_cr_) out += '\r';
  held_cr_ = bytes.back() == '\r';
  out += bytes.substr(0, bytes.size() - (held_cr_ ? 1 : 0));
}

void LineRange::take(std::string& out, std::string_view bytes) {
  while (!bytes.empty() && line_ < end_) {
    const std::size_t lf = bytes.find('\n');
    if (line_ >= first_) select(out, bytes.substr(0, lf));
    if (lf == std::string_view::npos) return;
    bytes.remove_prefix(lf + 1);
    ++line_;
    line_begun_ = false;
    held_cr_ = false;
  }
}

Result<bool> LineRange::fill(std::string& out, std::size_t limit) {
  while (out.size() < limit) {
    if (line_ >= end_) return false;
    const ssize_t n = ::read(file_.get(), buffer_.data(), buffer_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys::from_errno("read", errno);
    if (n == 0) return false;
    take(out, {buffer_.data(), static_cast<std::size_t>(n)});
  }
  return true;
}

}  // namespace osb::execd
