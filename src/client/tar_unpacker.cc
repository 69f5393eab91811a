#include "client/tar_unpacker.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "client/errors.h"
#include "client/local_file.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace opensandbox {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kLargestExtended = 1024 * 1024;

Failure broken(const std::string& why) { return invalid_response("the archive is broken: " + why); }

// Octal, or GNU's base 256.
std::uint64_t number(std::string_view field) {
  if (!field.empty() && (field[0] & 0x80) != 0) {
    std::uint64_t out = static_cast<unsigned char>(field[0]) & 0x3f;
    for (const char c : field.substr(1)) out = out << 8 | static_cast<unsigned char>(c);
    return out;
  }
  std::uint64_t out = 0;
  for (const char c : field) {
    if (c >= '0' && c <= '7') out = out * 8 + static_cast<std::uint64_t>(c - '0');
    if (c == '\0') break;
  }
  return out;
}

std::string text(std::string_view field) { return std::string(field.substr(0, field.find('\0'))); }

std::uint64_t padding_of(std::uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

bool parse(std::string_view digits, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return error == std::errc() && end == digits.data() + digits.size();
}

timespec parse_time(std::string_view value) {
  timespec out{};
  const auto point = value.find('.');
  const std::string_view whole = value.substr(0, point);
  std::from_chars(whole.data(), whole.data() + whole.size(), out.tv_sec);
  if (point != std::string_view::npos) {
    std::string fraction(value.substr(point + 1, 9));
    fraction.resize(9, '0');
    std::from_chars(fraction.data(), fraction.data() + fraction.size(), out.tv_nsec);
  }
  return out;
}

// "./a//b/" to "a/b"; nothing if it leads out.
std::optional<std::string> clean(std::string_view path) {
  if (path.starts_with('/') || path.contains('\0')) return std::nullopt;
  std::string out;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return std::nullopt;
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

}  // namespace

Result<TarUnpacker> TarUnpacker::open(const std::string& directory) {
  std::string made;
  for (std::size_t at = 0; at <= directory.size(); ++at) {  // mkdir -p
    if (at != directory.size() && (directory[at] != '/' || at == 0)) continue;
    made = directory.substr(0, at);
    if (::mkdir(made.c_str(), 0777) < 0 && errno != EEXIST) return from_errno("mkdir " + made, errno);
  }
  auto root = osb::sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!root) return from_local(root.error());
  return TarUnpacker(std::move(*root));
}

TarUnpacker::~TarUnpacker() { discard(); }

void TarUnpacker::discard() {
  file_.reset();
  if (!staged_.empty() && target_.parent.get() >= 0) ::unlinkat(target_.parent.get(), staged_.c_str(), 0);
  staged_.clear();
}

Result<void> TarUnpacker::feed(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::End) {
    if (state_ == State::Data || state_ == State::Padding) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
      if (state_ == State::Data) {
        if (auto written = contents(bytes.substr(0, n)); !written) return written;
      }
      left_ -= n;
      bytes.remove_prefix(n);
      if (left_ > 0) continue;
      if (state_ == State::Data) {
        if (auto ended = end_file(); !ended) return ended;
      } else {
        state_ = State::Header;
      }
      continue;
    }
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(wanted_ - block_.size(), bytes.size()));
    block_.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    if (block_.size() < wanted_) continue;
    Result<void> done;
    if (state_ == State::Header) {
      done = header();
    } else if (state_ == State::Extended) {
      done = extended();
    } else {
      auto whole = sparse_map();
      if (!whole) return Failure(std::move(whole.error()));
      if (!*whole) {
        wanted_ += kBlock;
        if (wanted_ > kLargestExtended || left_ < kBlock) return broken("the map of a sparse file does not end");
        left_ -= kBlock;
        continue;
      }
      done = begin(left_);
    }
    if (!done) return done;
  }
  return {};
}

Result<void> TarUnpacker::header() {
  const std::string block = std::exchange(block_, std::string());
  if (std::ranges::all_of(block, [](char c) { return c == '\0'; })) {
    state_ = State::End;
    return {};
  }
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
  const std::string_view view = block;
  if (number(view.substr(148, 8)) != sum) return broken("a header's checksum is wrong");
  any_ = true;
  const char type = block[156];
  std::uint64_t stored = number(view.substr(124, 12));
  if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
    if (stored > kLargestExtended) return broken("an extended header is too long");
    extended_type_ = type;
    left_ = stored;
    wanted_ = stored + padding_of(stored);
    state_ = State::Extended;
    return wanted_ == 0 ? extended() : Result<void>();
  }
  if (next_.has_size) stored = next_.size;
  entry_ = {};
  entry_.type = type == '\0' ? '0' : type;
  entry_.path = text(view.substr(0, 100));
  if (view.substr(257, 5) == "ustar" && block[345] != '\0' && view.substr(257, 6) == std::string_view("ustar\0", 6)) {
    entry_.path = text(view.substr(345, 155)) + '/' + entry_.path;
  }
  entry_.link = text(view.substr(157, 100));
  entry_.mode = static_cast<unsigned>(number(view.substr(100, 8)));
  entry_.mtime.tv_sec = static_cast<time_t>(number(view.substr(136, 12)));
  entry_.size = stored;
  const Overrides given = std::exchange(next_, {});
  if (!given.path.empty()) entry_.path = given.path;
  if (!given.link.empty()) entry_.link = given.link;
  if (given.has_mtime) entry_.mtime = given.mtime;
  segments_.clear();
  segment_ = 0;
  segment_done_ = 0;
  padding_ = padding_of(stored);
  if (given.sparse) {
    if (!given.sparse_name.empty()) entry_.path = given.sparse_name;
    entry_.size = given.real_size;
    if (stored < kBlock) return broken("a sparse file without its map");
    left_ = stored - kBlock;
    wanted_ = kBlock;
    state_ = State::SparseMap;
    return {};
  }
  segments_.push_back({0, stored});
  return begin(stored);
}

Result<void> TarUnpacker::extended() {
  const std::string block = std::exchange(block_, std::string());
  wanted_ = kBlock;
  state_ = State::Header;
  const std::string_view content = std::string_view(block).substr(0, static_cast<std::size_t>(left_));
  if (extended_type_ == 'L') next_.path = text(content);
  if (extended_type_ == 'K') next_.link = text(content);
  return extended_type_ == 'x' ? records(content) : Result<void>();
}

Result<void> TarUnpacker::records(std::string_view content) {
  while (!content.empty()) {
    const auto space = content.find(' ');
    std::uint64_t length = 0;
    if (space == std::string_view::npos || !parse(content.substr(0, space), length) || length > content.size() ||
        length < space + 3 || content[length - 1] != '\n') {
      return broken("an extended header cannot be read");
    }
    const std::string_view record = content.substr(space + 1, static_cast<std::size_t>(length) - space - 2);
    content.remove_prefix(static_cast<std::size_t>(length));
    const auto equals = record.find('=');
    if (equals == std::string_view::npos) return broken("an extended header cannot be read");
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    bool fine = true;
    if (key == "path") next_.path = value;
    if (key == "linkpath") next_.link = value;
    if (key == "mtime") next_.mtime = parse_time(value), next_.has_mtime = true;
    if (key == "size") fine = parse(value, next_.size), next_.has_size = true;
    if (key == "GNU.sparse.name") next_.sparse_name = value;
    if (key == "GNU.sparse.realsize") fine = parse(value, next_.real_size);
    if (key == "GNU.sparse.major") next_.sparse = value == "1", fine = value == "1";
    if (!fine) return broken("an extended header holds " + std::string(record));
  }
  return {};
}

// True when the map is complete; it is decimal numbers, one per line, filled up to whole blocks.
Result<bool> TarUnpacker::sparse_map() {
  std::string_view rest = block_;
  std::vector<std::uint64_t> numbers;
  for (;;) {
    if (!numbers.empty() && numbers.size() == 1 + 2 * numbers[0]) break;
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    std::uint64_t value = 0;
    if (!parse(rest.substr(0, end), value)) return broken("the map of a sparse file cannot be read");
    if (numbers.empty() && value > kLargestExtended) return broken("the map of a sparse file is too long");
    numbers.push_back(value);
    rest.remove_prefix(end + 1);
  }
  std::uint64_t total = 0, last = 0;
  for (std::size_t i = 1; i + 1 < numbers.size(); i += 2) {
    const Segment segment{numbers[i], numbers[i + 1]};
    if (segment.offset < last || segment.length > entry_.size || segment.offset > entry_.size - segment.length) {
      return broken("the map of a sparse file contradicts itself");
    }
    last = segment.offset + segment.length;
    total += segment.length;
    if (segment.length > 0) segments_.push_back(segment);
  }
  if (total != left_) return broken("a sparse file has another length than its map says");
  block_.clear();
  wanted_ = kBlock;
  return true;
}

Result<osb::UniqueFd> TarUnpacker::open_beneath(const std::string& path, int flags) const {
  const int fd = osb::sys::try_openat2(root_.get(), path.empty() ? "." : path.c_str(), flags,
                                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (fd < 0) return from_errno("open " + path, errno);
  return osb::UniqueFd(fd);
}

Result<TarUnpacker::Place> TarUnpacker::place_of(const std::string& path) const {
  const auto slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? std::string() : path.substr(0, slash);
  auto fd = open_beneath(parent, O_RDONLY | O_DIRECTORY);
  // Archives may leave directories out.
  for (std::size_t at = 0; !fd && at != std::string::npos;) {
    at = parent.find('/', at + 1);
    const std::string part = parent.substr(0, at);
    auto above = open_beneath(part.contains('/') ? part.substr(0, part.rfind('/')) : "", O_RDONLY | O_DIRECTORY);
    if (!above) return Failure(std::move(above.error()));
    const std::string name = part.substr(part.rfind('/') + 1);
    if (::mkdirat(above->get(), name.c_str(), 0777) < 0 && errno != EEXIST) return from_errno("mkdir " + part, errno);
    if (at == std::string::npos) fd = open_beneath(parent, O_RDONLY | O_DIRECTORY);
  }
  if (!fd) return Failure(std::move(fd.error()));
  return Place{std::move(*fd), path.substr(slash == std::string::npos ? 0 : slash + 1)};
}

Result<void> TarUnpacker::begin(std::uint64_t stored) {
  const auto path = clean(entry_.path);
  if (!path) return broken("\"" + entry_.path + "\" leads out of the directory");
  entry_.path = *path;
  left_ = stored;
  state_ = State::Data;
  target_.parent.reset();
  target_.name.clear();
  if (entry_.type == '5') {
    if (auto made = make_directory(); !made) return made;
  } else if (path->empty()) {
    return broken("an entry has no name");
  } else if (entry_.type == '1' || entry_.type == '2') {
    if (auto made = make_link(); !made) return made;
  } else if (entry_.type == '0' || entry_.type == '7') {
    auto place = place_of(*path);
    if (!place) return Failure(std::move(place.error()));
    target_ = std::move(*place);
    staged_ = ".opensandbox-" + osb::new_hex_id().substr(0, 16);
    file_ =
        osb::UniqueFd(::openat(target_.parent.get(), staged_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file_.get() < 0) {
      staged_.clear();
      return from_errno("create " + *path, errno);
    }
  }
  return left_ == 0 ? end_file() : Result<void>();
}

Result<void> TarUnpacker::contents(std::string_view bytes) {
  while (!bytes.empty()) {
    if (segment_ == segments_.size()) return broken("a file is longer than it said");
    const Segment& segment = segments_[segment_];
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(segment.length - segment_done_, bytes.size()));
    if (file_.get() >= 0) {
      for (std::string_view piece = bytes.substr(0, n); !piece.empty();) {
        const auto at = static_cast<off_t>(segment.offset + segment_done_ + (n - piece.size()));
        const ssize_t written = ::pwrite(file_.get(), piece.data(), piece.size(), at);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return from_errno("write " + entry_.path, errno);
        piece.remove_prefix(static_cast<std::size_t>(written));
      }
    }
    segment_done_ += n;
    bytes.remove_prefix(n);
    if (segment_done_ == segment.length) ++segment_, segment_done_ = 0;
  }
  return {};
}

Result<void> TarUnpacker::end_file() {
  if (file_.get() >= 0) {
    const timespec times[2] = {{0, UTIME_OMIT}, entry_.mtime};
    if (::ftruncate(file_.get(), static_cast<off_t>(entry_.size)) < 0)
      return from_errno("truncate " + entry_.path, errno);
    if (::fchmod(file_.get(), entry_.mode & 0777) < 0) return from_errno("chmod " + entry_.path, errno);
    (void)::futimens(file_.get(), times);
    file_.reset();
    if (::renameat(target_.parent.get(), staged_.c_str(), target_.parent.get(), target_.name.c_str()) < 0) {
      return from_errno("rename to " + entry_.path, errno);
    }
    staged_.clear();
  }
  left_ = padding_;
  state_ = left_ > 0 ? State::Padding : State::Header;
  return {};
}

Result<void> TarUnpacker::make_directory() {
  directories_.push_back({entry_.path, entry_.mode & 0777, entry_.mtime});
  if (entry_.path.empty()) return {};
  auto place = place_of(entry_.path);
  if (!place) return Failure(std::move(place.error()));
  if (::mkdirat(place->parent.get(), place->name.c_str(), 0700) < 0 && errno != EEXIST) {
    return from_errno("mkdir " + entry_.path, errno);
  }
  auto made = open_beneath(entry_.path, O_RDONLY | O_DIRECTORY);  // a symlink of that name is none
  if (!made) return Failure(std::move(made.error()));
  return {};
}

Result<void> TarUnpacker::make_link() {
  auto place = place_of(entry_.path);
  if (!place) return Failure(std::move(place.error()));
  const std::string staged = ".opensandbox-" + osb::new_hex_id().substr(0, 16);
  if (entry_.type == '2') {
    if (::symlinkat(entry_.link.c_str(), place->parent.get(), staged.c_str()) < 0) {
      return from_errno("symlink " + entry_.path, errno);
    }
  } else {
    const auto link = clean(entry_.link);
    if (!link || link->empty()) return broken("\"" + entry_.link + "\" leads out of the directory");
    auto from = place_of(*link);
    if (!from) return Failure(std::move(from.error()));
    if (::linkat(from->parent.get(), from->name.c_str(), place->parent.get(), staged.c_str(), 0) < 0) {
      return from_errno("link " + entry_.path, errno);
    }
  }
  if (::renameat(place->parent.get(), staged.c_str(), place->parent.get(), place->name.c_str()) < 0) {
    const int error = errno;
    ::unlinkat(place->parent.get(), staged.c_str(), 0);
    return from_errno("rename to " + entry_.path, error);
  }
  // rename() does nothing when both are links to one file already.
  ::unlinkat(place->parent.get(), staged.c_str(), 0);
  return {};
}

Result<void> TarUnpacker::finish() {
  if (!any_) return broken("it is empty");
  if ((state_ != State::Header && state_ != State::End) || !block_.empty()) return broken("it ends in the middle");
  // The deepest first: a directory may lose the right to be entered.
  for (auto entry = directories_.rbegin(); entry != directories_.rend(); ++entry) {
    auto fd = open_beneath(entry->path, O_RDONLY | O_DIRECTORY);
    if (!fd) return Failure(std::move(fd.error()));
    const timespec times[2] = {{0, UTIME_OMIT}, entry->mtime};
    (void)::futimens(fd->get(), times);
    if (::fchmod(fd->get(), entry->mode) < 0) return from_errno("chmod " + entry->path, errno);
  }
  return {};
}

}  // namespace opensandbox
