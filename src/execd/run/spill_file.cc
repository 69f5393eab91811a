#include "execd/run/spill_file.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "execd/run/temp_file.h"

namespace osb::execd {

void SpillFile::write(std::uint64_t first_seq, std::uint64_t last_seq, std::string_view bytes) {
  if (broken_ || bytes.size() > limit_) return;
  if (!file_) {
    auto file = make_unnamed_file(directory_);
    if (!file) {
      broken_ = true;
      return;
    }
    file_ = std::move(*file);
  }
  // The oldest block always lies right behind next_, because the file is filled in a circle.
  if (next_ + bytes.size() > limit_) {
    while (!blocks_.empty() && blocks_.front().start >= next_) blocks_.pop_front();
    next_ = 0;
  }
  const std::uint64_t end = next_ + bytes.size();
  while (!blocks_.empty() && blocks_.front().start >= next_ && blocks_.front().start < end) blocks_.pop_front();

  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(next_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk: this block is lost, a later one may fit again
    done += static_cast<std::size_t>(n);
  }
  blocks_.push_back({first_seq, last_seq, next_, bytes.size()});
  next_ = end;
  high_ = std::max(high_, end);
}

const SpillFile::Block* SpillFile::find(std::uint64_t seq) const {
  const auto it = std::ranges::lower_bound(blocks_, seq, {}, &Block::last_seq);
  return it == blocks_.end() ? nullptr : &*it;
}

bool SpillFile::read(const Block& block, std::string& into) const {
  into.resize(block.size);
  for (std::size_t done = 0; done < block.size;) {
    const ssize_t n =
        ::pread(file_.get(), into.data() + done, block.size - done, static_cast<off_t>(block.start + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

void SpillFile::clear() {
  file_.reset();
  blocks_.clear();
  next_ = high_ = 0;
}

}  // namespace osb::execd
