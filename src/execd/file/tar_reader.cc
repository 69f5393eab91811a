#include "execd/file/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace osb::execd {
namespace {

constexpr std::size_t kMaxExtended = 1024 * 1024;  // pax records and long names
constexpr std::size_t kMaxSparseMap = 4 * 1024 * 1024;
constexpr std::uint64_t kMaxSize = std::numeric_limits<std::int64_t>::max();

Failure bad(std::string_view why) { return fail(Code::InvalidRequest, "tar archive: " + std::string(why)); }

// A field up to its first NUL.
std::string_view text_field(std::string_view block, std::size_t at, std::size_t size) {
  const std::string_view field = block.substr(at, size);
  return field.substr(0, field.find('\0'));
}

// Octal digits between blanks, or GNU's base 256 with the top bit set (negative numbers become nothing).
std::optional<std::uint64_t> number_field(std::string_view block, std::size_t at, std::size_t size) {
  std::string_view field = block.substr(at, size);
  std::uint64_t value = 0;
  if (static_cast<unsigned char>(field[0]) & 0x80) {
    if (static_cast<unsigned char>(field[0]) != 0x80) return std::nullopt;
    for (const char c : field.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  field = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
  for (const char c : field) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kMaxSize) return std::nullopt;
  return value;
}

// "-12.25": digits beyond nine are dropped.
std::optional<timespec> pax_time(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const std::size_t dot = text.find('.');
  const auto seconds = decimal(text.substr(0, dot));
  if (!seconds) return std::nullopt;
  std::string fraction(dot == std::string_view::npos ? "" : text.substr(dot + 1));
  fraction.resize(9, '0');
  const auto nanos = decimal(fraction);
  if (!nanos) return std::nullopt;
  timespec time{static_cast<time_t>(*seconds), static_cast<long>(*nanos)};
  if (negative) {
    time.tv_sec = -time.tv_sec;
    if (time.tv_nsec != 0) time = {time.tv_sec - 1, 1'000'000'000 - time.tv_nsec};
  }
  return time;
}

bool checksum_ok(std::string_view block) {
  const auto expected = number_field(block, 148, 8);
  std::uint64_t sum = 0;
  std::int64_t signed_sum = 0;  // some old writers added signed bytes
  for (std::size_t i = 0; i < block.size(); ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  return expected && (*expected == sum || static_cast<std::int64_t>(*expected) == signed_sum);
}

}  // namespace

Result<void> TarReader::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    Result<void> ok;
    if (state_ == State::End) return {};
    if (state_ == State::Data || state_ == State::Padding) {
      const std::string_view piece = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      if (state_ == State::Data) ok = contents(piece);
      if (ok && left_ == 0) ok = state_ == State::Data ? after_data() : end_entry();
    } else {
      const std::string_view piece = bytes.substr(0, wanted_ - block_.size());
      bytes.remove_prefix(piece.size());
      block_ += piece;
      any_ = true;
      if (block_.size() < wanted_) return {};
      if (state_ == State::Header)
        ok = header();
      else if (state_ == State::Extended)
        ok = extended();
      else if (auto complete = sparse_map(); !complete)
        ok = Failure(complete.error());
    }
    if (!ok) return ok;
  }
  return {};
}

Result<void> TarReader::finish() const {
  if (!any_) return bad("empty");
  if (state_ == State::End) return {};
  if (state_ != State::Header || !block_.empty()) return bad("ends in the middle of an entry");
  return {};
}

Result<void> TarReader::header() {
  const std::string block = std::exchange(block_, {});
  if (block.find_first_not_of('\0') == std::string::npos) {
    state_ = State::End;
    return {};
  }
  if (!checksum_ok(block)) return bad("not a tar archive, or a damaged one (wrong checksum)");
  const auto size = number_field(block, 124, 12);
  if (!size || *size > kMaxSize) return bad("bad size");
  const char type = block[156];

  if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
    if (*size > kMaxExtended) return bad("extended header is too large");
    if (*size == 0) return {};
    extended_type_ = type;
    left_ = *size;
    wanted_ = *size + tar_padding(*size);
    state_ = State::Extended;
    return {};
  }

  entry_ = {};
  const bool ustar = block.compare(257, 5, "ustar") == 0;
  const bool posix = ustar && block[262] == '\0';  // GNU's old format has other things where the prefix is
  entry_.path = text_field(block, 0, 100);
  if (const auto prefix = text_field(block, 345, 155); posix && !prefix.empty()) {
    entry_.path = std::string(prefix) + "/" + entry_.path;
  }
  entry_.link = text_field(block, 157, 100);
  const auto mode = number_field(block, 100, 8), uid = number_field(block, 108, 8), gid = number_field(block, 116, 8);
  if (!mode || !uid || !gid) return bad("bad number in a header");
  entry_.mode = static_cast<mode_t>(*mode & 07777);
  entry_.uid = *uid;
  entry_.gid = *gid;
  // A time before 1970 in base 256 is not worth an error.
  entry_.mtime.tv_sec = static_cast<time_t>(std::min(number_field(block, 136, 12).value_or(0), kMaxSize));
  if (ustar) {
    entry_.owner = text_field(block, 265, 32);
    entry_.group = text_field(block, 297, 32);
    entry_.major = static_cast<std::uint32_t>(number_field(block, 329, 8).value_or(0));
    entry_.minor = static_cast<std::uint32_t>(number_field(block, 337, 8).value_or(0));
  }
  return begin_entry(type, *size);
}

// Applies the overrides and tells the sink, or first collects the map of a sparse file.
Result<void> TarReader::begin_entry(char type, std::uint64_t stored) {
  const Overrides overrides = std::exchange(next_, global_);
  if (overrides.has_path) entry_.path = overrides.path;
  if (overrides.has_link) entry_.link = overrides.link;
  if (overrides.has_owner) entry_.owner = overrides.owner;
  if (overrides.has_group) entry_.group = overrides.group;
  if (overrides.has_uid) entry_.uid = overrides.uid;
  if (overrides.has_gid) entry_.gid = overrides.gid;
  if (overrides.has_mtime) entry_.mtime = overrides.mtime;
  if (overrides.has_size) stored = overrides.size;
  if (type == '\0' || type == '7') type = '0';
  if (type == '0' && entry_.path.ends_with('/')) type = '5';  // how tars before ustar said "directory"
  if (type < '0' || type > '6') return bad("entry type '" + std::string(1, type) + "' is not supported");
  entry_.type = static_cast<TarEntry::Type>(type);
  // Only files have contents; a hard link may repeat the size of its target without having any.
  if (type != '0') stored = 0;
  entry_.size = stored;
  padding_ = tar_padding(stored);
  left_ = stored;
  if (overrides.sparse_major || overrides.sparse_minor) {
    if (!overrides.sparse_major || !overrides.sparse_minor || !overrides.sparse_size || type != '0') {
      return bad("incomplete sparse entry");
    }
    if (!overrides.sparse_path.empty()) entry_.path = overrides.sparse_path;
    entry_.size = overrides.real_size;
    entry_.sparse = true;
    if (left_ < kTarBlock) return bad("sparse entry without a map");
    wanted_ = kTarBlock;
    state_ = State::SparseMap;
    return {};
  }
  if (auto ok = sink_.begin(entry_); !ok) return ok;
  state_ = State::Data;
  return left_ == 0 ? after_data() : Result<void>{};
}

Result<void> TarReader::extended() {
  const std::string block = std::exchange(block_, {});
  const std::string_view text = std::string_view(block).substr(0, left_);
  left_ = 0;
  wanted_ = kTarBlock;
  state_ = State::Header;
  if (extended_type_ == 'x') return records(text, next_);
  if (extended_type_ == 'g') {
    if (auto ok = records(text, global_); !ok) return ok;
    next_ = global_;
    return {};
  }
  const std::string_view name = text.substr(0, text.find('\0'));
  (extended_type_ == 'L' ? next_.path : next_.link) = name;
  (extended_type_ == 'L' ? next_.has_path : next_.has_link) = true;
  return {};
}

Result<void> TarReader::records(std::string_view text, Overrides& into) {
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return bad("broken pax record");
    const auto length = decimal(text.substr(0, blank));
    if (!length || *length > text.size() || *length < blank + 2 || text[*length - 1] != '\n') {
      return bad("broken pax record");
    }
    const std::string_view pair = text.substr(blank + 1, *length - blank - 2);
    text.remove_prefix(*length);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return bad("broken pax record");
    if (auto ok = record(pair.substr(0, equals), pair.substr(equals + 1), into); !ok) return ok;
  }
  return {};
}

Result<void> TarReader::record(std::string_view key, std::string_view value, Overrides& into) {
  const auto number = [&](std::uint64_t& field, bool& has) -> Result<void> {
    const auto parsed = decimal(value);
    if (!parsed) return bad("bad number in " + std::string(key));
    field = *parsed;
    has = true;
    return {};
  };
  const auto text = [&](std::string& field, bool& has) -> Result<void> {
    if (value.find('\0') != std::string_view::npos) return bad("NUL byte in " + std::string(key));
    field = value;
    has = true;
    return {};
  };
  bool ignored = false;
  if (key == "path") return text(into.path, into.has_path);
  if (key == "linkpath") return text(into.link, into.has_link);
  if (key == "uname") return text(into.owner, into.has_owner);
  if (key == "gname") return text(into.group, into.has_group);
  if (key == "size") return number(into.size, into.has_size);
  if (key == "uid") return number(into.uid, into.has_uid);
  if (key == "gid") return number(into.gid, into.has_gid);
  if (key == "GNU.sparse.name") return text(into.sparse_path, ignored);
  if (key == "GNU.sparse.realsize") return number(into.real_size, into.sparse_size);
  if (key == "GNU.sparse.major")
    return value == "1" ? into.sparse_major = true, Result<void>{} : bad("unsupported sparse format");
  if (key == "GNU.sparse.minor")
    return value == "0" ? into.sparse_minor = true, Result<void>{} : bad("unsupported sparse format");
  if (key.starts_with("GNU.sparse.")) return bad("unsupported sparse format");
  if (key == "mtime") {
    const auto time = pax_time(value);
    if (!time) return bad("bad mtime");
    into.mtime = *time;
    into.has_mtime = true;
  }
  return {};
}

// The map: a count, then offset and length of each segment, one number per line, in whole blocks. True when it is
// complete; false asks for one more block.
Result<bool> TarReader::sparse_map() {
  std::string_view text = block_;
  bool short_of_input = false;
  const auto line = [&]() -> std::optional<std::uint64_t> {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      short_of_input = true;
      return std::nullopt;
    }
    const auto value = decimal(text.substr(0, end));
    text.remove_prefix(end + 1);
    return value;
  };
  entry_.segments.clear();
  const auto count = line();
  std::uint64_t at = 0, total = 0;
  for (std::uint64_t i = 0; count && i < *count; ++i) {
    const auto offset = line();
    const auto length = offset ? line() : std::nullopt;
    if (!length) break;
    if (*offset < at || *offset > entry_.size || *length > entry_.size - *offset) return bad("bad sparse map");
    at = *offset + *length;
    total += *length;
    if (*length > 0) entry_.segments.push_back({*offset, *length});
  }
  if (short_of_input) {
    // Twice as much each time, so that a long map is not scanned once per block.
    wanted_ = block_.size() * 2;
    if (wanted_ > kMaxSparseMap || wanted_ > left_)
      wanted_ = std::min<std::uint64_t>(kMaxSparseMap, left_ - left_ % kTarBlock);
    if (wanted_ <= block_.size()) return bad("bad sparse map");
    return false;
  }
  const std::size_t used = block_.size() - text.size();
  const std::size_t map = used + tar_padding(used);
  if (!count || map > left_ || total != left_ - map) return bad("bad sparse map");
  const std::string early = block_.substr(map);  // contents that came with the last block of the map
  block_.clear();
  wanted_ = kTarBlock;
  left_ = total;
  segment_ = 0;
  segment_done_ = 0;
  state_ = State::Data;
  if (auto ok = sink_.begin(entry_); !ok) return Failure(ok.error());
  left_ -= early.size();
  if (auto ok = contents(early); !ok) return Failure(ok.error());
  if (left_ == 0) {
    if (auto ok = after_data(); !ok) return Failure(ok.error());
  }
  return true;
}

// `bytes` have been taken off left_ already.
Result<void> TarReader::contents(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (!entry_.sparse) return sink_.data(entry_.size - left_ - bytes.size(), bytes);
  while (!bytes.empty()) {
    const TarEntry::Segment& segment = entry_.segments[segment_];
    const std::string_view piece =
        bytes.substr(0, std::min<std::uint64_t>(segment.length - segment_done_, bytes.size()));
    if (auto ok = sink_.data(segment.offset + segment_done_, piece); !ok) return ok;
    bytes.remove_prefix(piece.size());
    segment_done_ += piece.size();
    if (segment_done_ == segment.length) {
      ++segment_;
      segment_done_ = 0;
    }
  }
  return {};
}

Result<void> TarReader::after_data() {
  left_ = padding_;
  state_ = State::Padding;
  return left_ == 0 ? end_entry() : Result<void>{};
}

Result<void> TarReader::end_entry() {
  state_ = State::Header;
  return sink_.end();
}

}  // namespace osb::execd
