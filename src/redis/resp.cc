#include "redis/resp.h"

#include "base/parse_number.h"

namespace osb::redis {
namespace {

Failure broken() { return fail(Code::InvalidRequest, "the answer is not Redis's protocol"); }

class Parser {
 public:
  Parser(std::string_view bytes, const Limits& limits) : bytes_(bytes), limits_(limits) {}

  // False: more bytes are needed.
  Result<bool> read(Reply& out, int depth = 0) {
    if (at_ >= bytes_.size()) return false;
    const char kind = bytes_[at_];
    const std::size_t end = bytes_.find("\r\n", at_);
    if (end == std::string_view::npos) {
      if (bytes_.size() - at_ > static_cast<std::size_t>(limits_.text_bytes)) return broken();
      return false;
    }
    const std::string_view line = bytes_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 2;
    switch (kind) {
      case '+':
        out = {Reply::Kind::Text, std::string(line), 0, {}};
        return true;
      case ':': {
        const auto value = parse_number<std::int64_t>(line);
        if (!value) return broken();
        out = {Reply::Kind::Number, {}, *value, {}};
        return true;
      }
      case '-':
        out = {Reply::Kind::Error, std::string(line), 0, {}};
        return true;
      case '$':
        return read_text(line, out);
      case '*':
        return read_list(line, out, depth);
      default:
        return broken();
    }
  }

  std::size_t used() const { return at_; }

 private:
  static Result<std::int64_t> number(std::string_view text, std::int64_t most) {
    const auto out = parse_number<std::int64_t>(text);
    if (!out || *out < -1 || *out > most) return broken();
    return *out;
  }

  Result<bool> read_text(std::string_view line, Reply& out) {
    const auto size = number(line, limits_.text_bytes);
    if (!size) return Failure(size.error());
    out = {};
    if (*size < 0) return true;
    const auto length = static_cast<std::size_t>(*size);
    if (bytes_.size() - at_ < length + 2) return false;
    if (bytes_.substr(at_ + length, 2) != "\r\n") return broken();
    out = {Reply::Kind::Text, std::string(bytes_.substr(at_, length)), 0, {}};
    at_ += length + 2;
    return true;
  }

  Result<bool> read_list(std::string_view line, Reply& out, int depth) {
    const auto count = number(line, limits_.items);
    if (!count) return Failure(count.error());
    if (depth >= limits_.depth) return broken();
    out = {};
    if (*count < 0) return true;
    out.kind = Reply::Kind::List;
    for (std::int64_t i = 0; i < *count; ++i) {
      auto got = read(out.items.emplace_back(), depth + 1);
      if (!got || !*got) return got;
    }
    return true;
  }

  std::string_view bytes_;
  const Limits& limits_;
  std::size_t at_ = 0;
};

}  // namespace

std::string encode(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return out;
}

Result<std::optional<Reply>> take_reply(std::string& bytes, const Limits& limits) {
  Parser parser(bytes, limits);
  Reply reply;
  const auto whole = parser.read(reply);
  if (!whole) return Failure(whole.error());
  if (!*whole) return std::nullopt;
  bytes.erase(0, parser.used());
  return std::optional(std::move(reply));
}

}  // namespace osb::redis
