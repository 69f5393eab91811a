#include "base/mask_secrets.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace osb {
namespace {

constexpr std::string_view kMask = "***";

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_name(char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; }

// Compared without case, hyphens and underscores, so that api-key, API_KEY and apiKey are one word.
std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') out.push_back(lower(c));
  }
  return out;
}

enum class Name { Harmless, Secret, Header, Bearer, User };

Name kind_of(std::string_view written) {
  // -u and --user take user:password; a variable called user does not.
  if (written == "-u" || written == "--user" || written == "--proxy-user") return Name::User;
  if (written.size() > 64) written = written.substr(written.size() - 64);  // bounds the work per name
  const std::string name = folded(written);
  if (name == "bearer") return Name::Bearer;
  if (name.ends_with("authorization") || name.ends_with("cookie")) return Name::Header;
  constexpr std::array<std::string_view, 6> kWords = {"password", "passwd", "passphrase",
                                                      "secret",   "token",  "credential"};
  const bool secret = std::ranges::any_of(kWords, [&](auto word) { return name.find(word) != std::string::npos; });
  if (secret || name.ends_with("key") || name.ends_with("keyid") || name.ends_with("pwd") || name.ends_with("pass")) {
    return Name::Secret;
  }
  return Name::Harmless;
}

// Walks over the text once and copies it, knowing which quote it is inside of.
class Masker {
 public:
  explicit Masker(std::string_view text) : text_(text) { out_.reserve(text.size()); }

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_name(c)) {
        name();
      } else if (text_.substr(at_).starts_with("://")) {
        url();
      } else {
        if (c == '"' || c == '\'') quote_ = quote_ == 0 ? c : quote_ == c ? 0 : quote_;
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  bool more() const { return at_ < text_.size(); }

  void copy(std::size_t n) {
    n = std::min(n, text_.size() - at_);
    out_ += text_.substr(at_, n);
    at_ += n;
  }

  void copy_spaces() {
    while (more() && is_space(text_[at_])) copy(1);
  }

  void mask_to(std::size_t end) {
    if (end > at_) out_ += kMask;
    at_ = end;
  }

  void name() {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string_view written = text_.substr(at_, end - at_);
    const Name kind = kind_of(written);
    copy(written.size());
    if (kind == Name::Harmless || !more()) return;
    const bool spaced = is_space(text_[at_]);
    if (kind == Name::Bearer || kind == Name::User) {
      if (!spaced) return;
      copy_spaces();
      return kind == Name::Bearer ? value() : user();
    }
    if (assignment()) return kind == Name::Header ? header() : value();
    // --password value; but in --password --verbose the second word is another flag.
    if (kind == Name::Secret && spaced && written.starts_with('-')) {
      copy_spaces();
      if (more() && text_[at_] != '-') value();
    }
  }

  // Behind a name: = or :, perhaps with the name's closing quote and spaces around. Copies it when it is there.
  bool assignment() {
    std::size_t i = at_;
    while (i < text_.size() && (text_[i] == '"' || text_[i] == '\'' || text_[i] == '\\' || is_space(text_[i]))) ++i;
    if (i == text_.size() || (text_[i] != '=' && text_[i] != ':')) return false;
    if (text_.substr(i).starts_with("://")) return false;
    for (; at_ < i; copy(1)) {
      if (text_[at_] == quote_) quote_ = 0;
    }
    copy(1);
    copy_spaces();
    return true;
  }

  void header() {
    mask_to(std::min(text_.find_first_of(quote_ == 0     ? "\"'\r\n"
                                         : quote_ == '"' ? "\"\r\n"
                                                         : "'\r\n",
                                         at_),
                     text_.size()));
  }

  void value() {
    if (text_.substr(at_).starts_with("\\\"")) {  // JSON inside a double-quoted word
      copy(2);
      return mask_to(std::min(text_.find("\\\"", at_), text_.size()));
    }
    if (more() && quote_ != 0 && text_[at_] != quote_ && (text_[at_] == '"' || text_[at_] == '\'')) {
      const char inner = text_[at_];
      copy(1);
      return mask_to(closing(at_, inner));
    }
    mask_to(word_end(at_));
  }

  void user() {
    const std::size_t end = word_end(at_);
    const auto colon = text_.substr(at_, end - at_).find(':');
    if (colon == std::string_view::npos) return;
    copy(colon + 1);
    mask_to(end);
  }

  // user:password@host keeps the user; token@host keeps nothing.
  void url() {
    copy(3);
    const std::size_t end = std::min(text_.find_first_of("/?# \t\r\n\"'<>", at_), text_.size());
    const std::string_view authority = text_.substr(at_, end - at_);
    const auto last = authority.rfind('@');
    if (last == std::string_view::npos) return;
    const std::size_t host = at_ + last;
    const auto colon = authority.find(':');
    if (colon < last) copy(colon + 1);
    mask_to(host);
  }

  std::size_t closing(std::size_t i, char quote) const {
    for (; i < text_.size() && text_[i] != quote; ++i) {
      if (text_[i] == '\\') ++i;
    }
    return std::min(i, text_.size());
  }

  // The end of a shell word that starts at i: quoted parts belong to it, the quote we are inside of ends it.
  std::size_t word_end(std::size_t i) const {
    for (; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\\') {
        ++i;
      } else if (is_space(c) || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == ')') {
        break;
      } else if (c == '"' || c == '\'') {
        if (quote_ != 0) break;
        i = closing(i + 1, c);
      }
    }
    return std::min(i, text_.size());
  }

  std::string_view text_;
  std::string out_;
  std::size_t at_ = 0;
  char quote_ = 0;
};

}  // namespace

std::string mask_secrets(std::string_view text) { return Masker(text).run(); }

}  // namespace osb
