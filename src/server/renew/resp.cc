#include "server/renew/resp.h"

#include <charconv>

namespace osb::server::resp {
namespace {

constexpr std::int64_t kMostBytes = 1 << 20, kMostItems = 1024;
constexpr int kDeepest = 4;

Failure broken() { return fail(Code::InvalidRequest, "the answer is not Redis's protocol"); }

class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  // False: more bytes are needed.
  Result<bool> read(Reply& out, int depth = 0) {
    if (at_ >= bytes_.size()) return false;
    const char kind = bytes_[at_];
    const std::size_t end = bytes_.find("\r\n", at_);
    if (end == std::string_view::npos) {
      if (bytes_.size() - at_ > kMostBytes) return broken();
      return false;
    }
    const std::string_view line = bytes_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 2;
    switch (kind) {
      case '+':
      case ':':
        out = {Reply::Kind::Text, std::string(line), {}};
        return true;
      case '-':
        out = {Reply::Kind::Error, std::string(line), {}};
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
    std::int64_t out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || out < -1 || out > most) return broken();
    return out;
  }

  Result<bool> read_text(std::string_view line, Reply& out) {
    const auto size = number(line, kMostBytes);
    if (!size) return Failure(size.error());
    out = {};
    if (*size < 0) return true;
    const auto length = static_cast<std::size_t>(*size);
    if (bytes_.size() - at_ < length + 2) return false;
    if (bytes_.substr(at_ + length, 2) != "\r\n") return broken();
    out = {Reply::Kind::Text, std::string(bytes_.substr(at_, length)), {}};
    at_ += length + 2;
    return true;
  }

  Result<bool> read_list(std::string_view line, Reply& out, int depth) {
    const auto count = number(line, kMostItems);
    if (!count) return Failure(count.error());
    if (depth >= kDeepest) return broken();
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
  std::size_t at_ = 0;
};

}  // namespace

std::string encode(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return out;
}

Result<std::optional<Reply>> take_reply(std::string& bytes) {
  Parser parser(bytes);
  Reply reply;
  const auto whole = parser.read(reply);
  if (!whole) return Failure(whole.error());
  if (!*whole) return std::nullopt;
  bytes.erase(0, parser.used());
  return std::optional(std::move(reply));
}

}  // namespace osb::server::resp
