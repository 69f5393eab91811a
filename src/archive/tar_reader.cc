#include "archive/tar_reader.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/parse_number.h"

namespace osb::archive {
namespace {

constexpr std::size_t kMaxExtended = 1024 * 1024;  // pax records and long names
constexpr std::size_t kMaxSparseMap = 4 * 1024 * 1024;
constexpr std::size_t kMaxSegments = kMaxSparseMap / 16;
constexpr std::uint64_t kMaxSize = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kAttribute = "SCHILY.xattr.";

// A field up to its first NUL.
std::string_view text_field(std::string_view block, std::size_t at, std::size_t size) {
  const std::string_view field = block.substr(at, size);
  return field.substr(0, field.find('\0'));
}

// Octal digits between blanks, or GNU's base 256 with the top bit set: a big-endian number in two's complement.
std::optional<std::int64_t> signed_field(std::string_view block, std::size_t at, std::size_t size) {
  std::string_view field = block.substr(at, size);
  if (const auto first = static_cast<unsigned char>(field[0]); (first & 0x80) != 0) {
    // The next bit is the sign.
    std::int64_t value = (first & 0x7f) - ((first & 0x40) != 0 ? 0x80 : 0);
    for (const char c : field.substr(1)) {
      if (value > std::numeric_limits<std::int64_t>::max() >> 8 ||
          value < std::numeric_limits<std::int64_t>::min() >> 8)
        return std::nullopt;
      value = value * 256 + static_cast<unsigned char>(c);
    }
    return value;
  }
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  field = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
  std::int64_t value = 0;
  for (const char c : field) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value << 3 | (c - '0');
  }
  return value;
}

std::optional<std::uint64_t> number_field(std::string_view block, std::size_t at, std::size_t size) {
  const auto value = signed_field(block, at, size);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  const auto value = parse_number<std::uint64_t>(text);
  return value && *value <= kMaxSize ? value : std::nullopt;
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
  int sum = 0, signed_sum = 0;  // some old writers added signed bytes
  for (const char c : block) {
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  // The checksum's own field counts as blanks.
  for (const char c : block.substr(148, 8)) {
    sum += ' ' - static_cast<unsigned char>(c);
    signed_sum += ' ' - static_cast<signed char>(c);
  }
  const auto expected = signed_field(block, 148, 8);
  return expected && (*expected == sum || *expected == signed_sum);
}

}  // namespace

Failure TarReader::bad(std::string_view why) const {
  return fail(Code::InvalidRequest, what_ + ": " + std::string(why));
}

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
    } else if (block_.empty() && bytes.size() >= wanted_ && state_ != State::SparseMap) {
      // Whole in the input, as most are: no copy.
      const std::string_view piece = bytes.substr(0, wanted_);
      bytes.remove_prefix(wanted_);
      ok = block(piece);
    } else {
      const std::string_view piece = bytes.substr(0, wanted_ - block_.size());
      bytes.remove_prefix(piece.size());
      block_ += piece;
      any_ = true;
      if (block_.size() < wanted_) return {};
      ok = state_ == State::SparseMap ? sparse_map() : block(std::exchange(block_, {}));
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

Result<void> TarReader::block(std::string_view bytes) {
  any_ = true;
  if (state_ == State::Header) return header(bytes);
  if (state_ == State::Extended) return extended(bytes);
  return sparse_blocks(bytes, 0, 21, 504);
}

Result<void> TarReader::header(std::string_view block) {
  if (block.find_first_not_of('\0') == std::string_view::npos) {
    state_ = State::End;
    return {};
  }
  if (!checksum_ok(block)) return bad("not a tar archive, or a damaged one (wrong checksum)");
  const auto size = number_field(block, 124, 12);
  if (!size) return bad("bad size");
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
  const bool ustar = block.substr(257, 5) == "ustar";
  const bool posix = ustar && block[262] == '\0';  // GNU's old format has other things where the prefix is
  if (const auto prefix = text_field(block, 345, 155); posix && !prefix.empty()) entry_.path.append(prefix).append("/");
  entry_.path += text_field(block, 0, 100);
  entry_.link = text_field(block, 157, 100);
  const auto mode = number_field(block, 100, 8), uid = number_field(block, 108, 8), gid = number_field(block, 116, 8);
  const auto mtime = signed_field(block, 136, 12);
  if (!mode || !uid || !gid || !mtime) return bad("bad number in a header");
  entry_.mode = static_cast<mode_t>(*mode & 07777);
  entry_.uid = *uid;
  entry_.gid = *gid;
  entry_.mtime.tv_sec = static_cast<time_t>(*mtime);
  if (ustar) {
    entry_.owner = text_field(block, 265, 32);
    entry_.group = text_field(block, 297, 32);
    entry_.major = static_cast<std::uint32_t>(number_field(block, 329, 8).value_or(0));
    entry_.minor = static_cast<std::uint32_t>(number_field(block, 337, 8).value_or(0));
  }
  return begin_entry(block, *size);
}

// Applies the overrides and tells the sink, or first collects the map of a sparse file.
Result<void> TarReader::begin_entry(std::string_view block, std::uint64_t stored) {
  Overrides given;
  if (overridden_) given = std::exchange(next_, global_);
  overridden_ = has_global_;
  if (given.has_path) entry_.path = std::move(given.path);
  if (given.has_link) entry_.link = std::move(given.link);
  if (given.has_owner) entry_.owner = std::move(given.owner);
  if (given.has_group) entry_.group = std::move(given.group);
  if (given.has_uid) entry_.uid = given.uid;
  if (given.has_gid) entry_.gid = given.gid;
  if (given.has_mtime) entry_.mtime = given.mtime;
  if (given.has_size) stored = given.size;
  entry_.attributes = std::move(given.attributes);
  char type = block[156];
  if (type == '\0' || type == '7') type = '0';
  if (type == '0' && entry_.path.ends_with('/')) type = '5';  // how tars before ustar said "directory"
  const bool sparse = given.sparse_major || given.sparse_minor || given.has_real_size || !given.segments.empty();
  if (type == 'S') {
    const auto real_size = number_field(block, 483, 12);
    if (!real_size || sparse || !block.substr(257).starts_with("ustar  ")) return bad("bad sparse entry");
    entry_.size = *real_size;
    left_ = stored;
    map_.clear();
    return sparse_blocks(block, 386, 4, 482);
  }
  if (type < '0' || type > '6') return bad("entry type '" + std::string(1, type) + "' is not supported");
  entry_.type = static_cast<TarEntry::Type>(type);
  if (!sparse) {
    // Only files have contents; a hard link may repeat the size of its target without having any.
    entry_.size = type == '0' ? stored : 0;
    return begin_data(entry_.size);
  }
  if (given.sparse_major != given.sparse_minor || !given.has_real_size || type != '0') {
    return bad("incomplete sparse entry");
  }
  if (!given.sparse_path.empty()) entry_.path = std::move(given.sparse_path);
  entry_.size = given.real_size;
  if (!given.sparse_major) return begin_sparse(std::move(given.segments), stored);
  if (stored < kTarBlock) return bad("sparse entry without a map");
  left_ = stored;
  state_ = State::SparseMap;
  return {};
}

Result<void> TarReader::begin_data(std::uint64_t stored) {
  padding_ = tar_padding(stored);
  left_ = stored;
  segment_ = 0;
  segment_done_ = 0;
  state_ = State::Data;
  if (auto ok = sink_.begin(entry_); !ok) return ok;
  return left_ == 0 ? after_data() : Result<void>{};
}

Result<void> TarReader::begin_sparse(std::vector<TarEntry::Segment> segments, std::uint64_t stored) {
  std::uint64_t at = 0, total = 0;
  for (const auto& [offset, length] : segments) {
    if (offset < at || offset > entry_.size || length > entry_.size - offset) return bad("bad sparse map");
    at = offset + length;
    total += length;
  }
  if (total != stored) return bad("bad sparse map");
  std::erase_if(segments, [](const TarEntry::Segment& segment) { return segment.length == 0; });
  entry_.sparse = true;
  entry_.segments = std::move(segments);
  return begin_data(stored);
}

Result<void> TarReader::extended(std::string_view block) {
  const std::string_view text = block.substr(0, left_);
  left_ = 0;
  wanted_ = kTarBlock;
  state_ = State::Header;
  overridden_ = true;
  if (extended_type_ == 'x') return records(text, next_);
  if (extended_type_ == 'g') {
    has_global_ = true;
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
  if (key.starts_with(kAttribute)) {
    if (key.find('\0') != std::string_view::npos) return bad("NUL byte in the name of an attribute");
    into.attributes.emplace_back(key.substr(kAttribute.size()), value);
    return {};
  }
  if (key == "GNU.sparse.name") return text(into.sparse_path, ignored);
  if (key == "GNU.sparse.realsize" || key == "GNU.sparse.size") return number(into.real_size, into.has_real_size);
  if (key.starts_with("GNU.sparse.")) return sparse_record(key, value, into);
  if (value.empty()) return {};  // POSIX: the field of the header counts
  if (key == "path") return text(into.path, into.has_path);
  if (key == "linkpath") return text(into.link, into.has_link);
  if (key == "uname") return text(into.owner, into.has_owner);
  if (key == "gname") return text(into.group, into.has_group);
  if (key == "size") return number(into.size, into.has_size);
  if (key == "uid") return number(into.uid, into.has_uid);
  if (key == "gid") return number(into.gid, into.has_gid);
  if (key == "mtime") {
    const auto time = pax_time(value);
    if (!time) return bad("bad mtime");
    into.mtime = *time;
    into.has_mtime = true;
  }
  return {};
}

// Format 1.0 says its version; 0.1 has the map in one record, 0.0 two records for each segment.
Result<void> TarReader::sparse_record(std::string_view key, std::string_view value, Overrides& into) {
  const auto add = [&](std::uint64_t offset, std::string_view digits) -> Result<void> {
    const auto length = decimal(digits);
    if (!length || into.segments.size() == kMaxSegments) return bad("bad sparse map");
    into.segments.push_back({offset, *length});
    return {};
  };
  if (key == "GNU.sparse.numblocks") return {};
  if (key == "GNU.sparse.major" && value == "1") return into.sparse_major = true, Result<void>{};
  if (key == "GNU.sparse.minor" && value == "0") return into.sparse_minor = true, Result<void>{};
  if (key == "GNU.sparse.numbytes") return add(into.segment_offset, value);
  if (key == "GNU.sparse.offset") {
    const auto offset = decimal(value);
    if (!offset) return bad("bad sparse map");
    into.segment_offset = *offset;
    return {};
  }
  if (key != "GNU.sparse.map") return bad("unsupported sparse format");
  for (std::string_view rest = value;;) {
    const std::size_t middle = rest.find(',');
    const auto offset = decimal(rest.substr(0, middle));
    if (!offset || middle == std::string_view::npos) return bad("bad sparse map");
    rest.remove_prefix(middle + 1);
    const std::size_t end = rest.find(',');
    if (auto ok = add(*offset, rest.substr(0, end)); !ok) return ok;
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
}

// Format 1.0: a count, then offset and length of each segment, one number per line, in whole blocks before the
// contents. Asks for more blocks until the map is complete.
Result<void> TarReader::sparse_map() {
  std::string_view text = block_;
  bool complete = true, broken = false;
  const auto line = [&]() -> std::uint64_t {
    const std::size_t end = text.find('\n');
    complete = complete && end != std::string_view::npos;
    if (!complete) return 0;
    const auto value = decimal(text.substr(0, end));
    broken = broken || !value;
    text.remove_prefix(end + 1);
    return value.value_or(0);
  };
  std::vector<TarEntry::Segment> segments;
  const std::uint64_t count = line();
  for (std::uint64_t i = 0; i < count && complete && !broken; ++i) {
    const std::uint64_t offset = line(), length = line();
    segments.push_back({offset, length});
  }
  if (broken) return bad("bad sparse map");
  if (!complete) {
    // Twice as much each time, so that a long map is not scanned once per block.
    wanted_ = std::min<std::uint64_t>({block_.size() * 2, kMaxSparseMap, left_ - left_ % kTarBlock});
    return wanted_ <= block_.size() ? bad("bad sparse map") : Result<void>{};
  }
  const std::size_t used = block_.size() - text.size();
  const std::size_t map = used + tar_padding(used);
  if (map > left_) return bad("bad sparse map");
  const std::string early = block_.substr(map);  // contents that came with the last block of the map
  block_.clear();
  wanted_ = kTarBlock;
  if (auto ok = begin_sparse(std::move(segments), left_ - map); !ok || early.empty()) return ok;
  left_ -= early.size();
  if (auto ok = contents(early); !ok) return ok;
  return left_ == 0 ? after_data() : Result<void>{};
}

// GNU's first sparse format: pairs of numbers in the header (four) and in blocks behind it (21 each); a byte says
// whether another block follows.
Result<void> TarReader::sparse_blocks(std::string_view block, std::size_t at, std::size_t count, std::size_t more) {
  for (std::size_t i = 0; i < count && block[at + 12] != '\0'; ++i, at += 24) {
    const auto offset = number_field(block, at, 12), length = number_field(block, at + 12, 12);
    if (!offset || !length || map_.size() == kMaxSegments) return bad("bad sparse map");
    map_.push_back({*offset, *length});
  }
  if (block[more] == '\0') return begin_sparse(std::exchange(map_, {}), left_);
  state_ = State::SparseBlocks;
  return {};
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

}  // namespace osb::archive
