#include "http/multipart.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "http/parameters.h"

namespace osb::http {

namespace {

constexpr std::size_t kMaxBoundary = 70;  // RFC 2046

bool is_field_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("()<>@,;:\\\"/[]?={}").find(c) == std::string_view::npos;
  });
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text,
                             [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f; });
}

}  // namespace

Result<std::string> boundary_of(std::string_view content_type) {
  const auto bad = [](std::string why) { return osb::fail(Code::InvalidRequest, "Content-Type: " + std::move(why)); };
  if (trim_ows(content_type).empty()) return bad("missing, expected multipart/form-data");
  const auto parsed = parse_parameters(content_type);
  if (!parsed) return bad("malformed parameters");
  if (!iequals(parsed->value, "multipart/form-data")) return bad("expected multipart/form-data");
  const std::string* boundary = parsed->find("boundary");
  if (!boundary || boundary->empty()) return bad("multipart/form-data without a boundary");
  if (boundary->size() > kMaxBoundary) return bad("the boundary is longer than 70 characters");
  const bool printable = std::ranges::all_of(*boundary, [](char c) { return c >= ' ' && c < 0x7f; });
  if (!printable || boundary->back() == ' ') return bad("the boundary contains characters it may not contain");
  return *boundary;
}

MultipartParser::MultipartParser(std::string_view boundary, MultipartLimits limits)
    : delimiter_("\r\n--" + std::string(boundary) + "-"), delimiter_size_(delimiter_.size() - 1), limits_(limits) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(delimiter_[i]); };
  const std::size_t last = delimiter_size_ - 1;
  // A shift may be shorter than possible, never longer: that is what the cap is for.
  const auto shift = [](std::size_t n) { return static_cast<std::uint8_t>(std::min<std::size_t>(n, 255)); };
  skip_.fill(shift(delimiter_size_));
  for (std::size_t i = 0; i < last; ++i) skip_[at(i)] = shift(last - i);
  skip_after_last_ = skip_[at(last)];
  skip_[at(last)] = 0;
}

std::size_t MultipartParser::find_delimiter(std::string_view text) const {
  const std::size_t size = delimiter_size_;
  for (std::size_t i = size - 1; i < text.size();) {
    const std::uint8_t skip = skip_[static_cast<unsigned char>(text[i])];
    if (skip != 0) {
      i += skip;
      continue;
    }
    const char* start = text.data() + i + 1 - size;
    if (*start == '\r' && std::memcmp(start, delimiter_.data(), size) == 0) return i + 1 - size;
    i += skip_after_last_;
  }
  return std::string_view::npos;
}

MultipartParser::Event MultipartParser::next() {
  while (true) {
    if (const std::optional<Event> event = step()) return *event;
  }
}

std::optional<MultipartParser::Event> MultipartParser::step() {
  switch (state_) {
    case State::Scan:
      return scan();
    case State::AfterBoundary:
      return after_boundary();
    case State::AfterDash:
      return after_dash();
    case State::BoundaryLine:
      return boundary_line();
    case State::Head:
      return read_head();
    case State::Closing:
      if (std::exchange(in_part_, false)) return Event::PartEnd;
      state_ = State::Epilogue;
      return Event::End;
    case State::Epilogue:
      return epilogue();
    case State::Failed:
      return Event::Failed;
  }
  return Event::Failed;
}

std::optional<MultipartParser::Event> MultipartParser::scan() {
  if (input_.empty()) return Event::NeedInput;
  if (held_ > 0) {
    const std::size_t count = std::min(delimiter_size_ - held_, input_.size());
    if (std::memcmp(input_.data(), delimiter_.data() + held_, count) != 0) return not_a_boundary(held_);
    input_.remove_prefix(count);
    held_ += count;
    if (held_ < delimiter_size_) return Event::NeedInput;
    state_ = State::AfterBoundary;
    return std::nullopt;
  }
  if (const std::size_t at = find_delimiter(input_); at != std::string_view::npos) {
    const std::string_view before = input_.substr(0, at);
    input_.remove_prefix(at + delimiter_size_);
    held_ = delimiter_size_;
    state_ = State::AfterBoundary;
    return emit(before);
  }
  const std::string_view all = std::exchange(input_, {});
  // Could the piece end with the start of a delimiter? Only its last CR can be that start.
  const std::string_view end = all.substr(all.size() - std::min(all.size(), delimiter_size_ - 1));
  if (const std::size_t cr = end.rfind('\r'); cr != std::string_view::npos) {
    const std::string_view start = end.substr(cr);
    if (std::string_view(delimiter_).starts_with(start)) {
      held_ = start.size();
      return emit(all.substr(0, all.size() - held_));
    }
  }
  return emit(all);
}

std::optional<MultipartParser::Event> MultipartParser::emit(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (in_part_) {
    data_ = bytes;
    return Event::Data;
  }
  outside_ += bytes.size();
  if (outside_ > limits_.outside_bytes) return fail("multipart: too much text before the first part");
  return std::nullopt;
}

std::optional<MultipartParser::Event> MultipartParser::not_a_boundary(std::size_t matched) {
  const std::size_t begin = line_start_ ? 2 : 0;
  line_start_ = false;
  held_ = 0;
  state_ = State::Scan;
  return emit(std::string_view(delimiter_).substr(begin, matched - begin));
}

std::optional<MultipartParser::Event> MultipartParser::after_boundary() {
  if (input_.empty()) return Event::NeedInput;
  switch (input_.front()) {
    case '-':
      input_.remove_prefix(1);
      state_ = State::AfterDash;
      return std::nullopt;
    case ' ':
    case '\t':
    case '\r':
    case '\n':
      state_ = State::BoundaryLine;
      return std::nullopt;
    default:  // a longer word that starts like the boundary, such as the boundary of a nested body
      return not_a_boundary(delimiter_size_);
  }
}

std::optional<MultipartParser::Event> MultipartParser::after_dash() {
  if (input_.empty()) return Event::NeedInput;
  if (input_.front() != '-') return not_a_boundary(delimiter_size_ + 1);
  input_.remove_prefix(1);
  state_ = State::Closing;
  return std::nullopt;
}

std::optional<MultipartParser::Event> MultipartParser::boundary_line() {
  if (std::exchange(in_part_, false)) return Event::PartEnd;
  const std::size_t stop = input_.find_first_not_of(" \t\r");
  if (stop == std::string_view::npos) {
    input_ = {};
    return Event::NeedInput;
  }
  if (input_[stop] != '\n') return fail("multipart: text behind a boundary");
  input_.remove_prefix(stop + 1);
  if (++parts_ > limits_.parts) return fail(concat("multipart: more than ", limits_.parts, " parts"));
  state_ = State::Head;
  head_text_.clear();
  line_begin_ = 0;
  head_fields_ = 0;
  return std::nullopt;
}

std::optional<MultipartParser::Event> MultipartParser::read_head() {
  if (input_.empty()) return Event::NeedInput;
  const std::size_t newline = input_.find('\n');
  const std::string_view piece = input_.substr(0, newline == std::string_view::npos ? newline : newline + 1);
  if (piece.size() > limits_.head_bytes - head_text_.size()) {
    return fail(concat("multipart: the head of a part is larger than ", limits_.head_bytes, " bytes"));
  }
  head_text_ += piece;
  input_.remove_prefix(piece.size());
  if (newline == std::string_view::npos) return Event::NeedInput;
  const std::string_view line = std::string_view(head_text_).substr(line_begin_);
  line_begin_ = head_text_.size();
  if (line == "\r\n" || line == "\n") return parse_head();
  if (++head_fields_ > limits_.head_fields) {
    return fail(concat("multipart: a part has more than ", limits_.head_fields, " header fields"));
  }
  return std::nullopt;
}

MultipartParser::Event MultipartParser::parse_head() {
  head_ = PartHead();
  std::vector<Headers::Field> fields;
  for (std::string_view rest = head_text_; !rest.empty();) {
    const std::size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) break;
    if (has_control(line)) return fail("multipart: control character in the head of a part");
    if (line.front() == ' ' || line.front() == '\t') {  // a folded line
      if (fields.empty()) return fail("multipart: the head of a part starts with a blank");
      fields.back().value.append(" ").append(trim_ows(line));
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_field_name(line.substr(0, colon))) {
      return fail("multipart: malformed header field in a part");
    }
    fields.push_back({std::string(line.substr(0, colon)), std::string(trim_ows(line.substr(colon + 1)))});
  }
  for (Headers::Field& field : fields) head_.headers.add(std::move(field.name), std::move(field.value));

  head_.content_type = head_.headers.get("Content-Type");
  if (const std::string* disposition = head_.headers.find("Content-Disposition")) {
    const auto parsed = parse_parameters(*disposition);
    if (!parsed) return fail("multipart: malformed Content-Disposition");
    if (const std::string* name = parsed->find("name")) head_.name = *name;
    if (const std::string* filename = parsed->find("filename")) head_.filename = *filename;
    if (const std::string* extended = parsed->find("filename*")) {
      if (auto filename = decode_extended_value(*extended)) head_.filename = std::move(*filename);
    }
  }
  state_ = State::Scan;
  in_part_ = true;
  held_ = 2;
  line_start_ = true;
  return Event::PartBegin;
}

std::optional<MultipartParser::Event> MultipartParser::epilogue() {
  outside_ += std::exchange(input_, {}).size();
  if (outside_ > limits_.outside_bytes) return fail("multipart: too much text after the last part");
  return Event::NeedInput;
}

MultipartParser::Event MultipartParser::fail(std::string message) {
  error_ = Error(Code::InvalidRequest, std::move(message));
  state_ = State::Failed;
  return Event::Failed;
}

Result<void> MultipartParser::finish() const {
  if (state_ == State::Epilogue) return {};
  if (state_ == State::Failed) return Failure(error_);
  return osb::fail(Code::InvalidRequest, "multipart: the body ends without its closing boundary");
}

net::awaitable<Result<MultipartParser::Event>> MultipartReader::advance() {
  while (true) {
    const MultipartParser::Event event = parser_.next();
    if (event == MultipartParser::Event::Failed) co_return Failure(parser_.error());
    if (event != MultipartParser::Event::NeedInput) co_return event;
    const Result<std::string_view> piece = co_await body_.read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) {
      if (const auto whole = parser_.finish(); !whole) co_return Failure(whole.error());
      co_return MultipartParser::Event::NeedInput;
    }
    parser_.feed(*piece);
  }
}

net::awaitable<Result<const PartHead*>> MultipartReader::next_part() {
  in_part_ = false;
  while (!ended_) {
    const Result<MultipartParser::Event> event = co_await advance();
    if (!event) co_return Failure(event.error());
    if (*event == MultipartParser::Event::NeedInput) ended_ = true;
    if (*event == MultipartParser::Event::PartBegin) {
      in_part_ = true;
      co_return &parser_.head();
    }
  }
  co_return nullptr;
}

net::awaitable<Result<std::string_view>> MultipartReader::read() {
  if (!in_part_) co_return std::string_view();
  const Result<MultipartParser::Event> event = co_await advance();
  if (!event) co_return Failure(event.error());
  if (*event == MultipartParser::Event::Data) co_return parser_.data();
  in_part_ = false;
  co_return std::string_view();
}

net::awaitable<Result<std::string>> MultipartReader::read_all(std::size_t limit) {
  std::string all;
  while (true) {
    const Result<std::string_view> piece = co_await read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return all;
    if (piece->size() > limit - all.size()) {
      co_return osb::fail(Code::TooLarge, concat("part is larger than ", limit, " bytes"));
    }
    all += *piece;
  }
}

}  // namespace osb::http
