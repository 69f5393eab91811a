#include "cli/terminal/detach_keys.h"

#include <cctype>

namespace osb::cli {
namespace {

Result<char> parse_key(std::string_view key) {
  if (key.size() == 1 && static_cast<unsigned char>(key[0]) < 0x80) return key[0];
  if (key.size() == 6 && key.starts_with("ctrl-")) {
    const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(key[5])));
    if (upper >= '@' && upper <= '_') return static_cast<char>(upper - '@');
  }
  return fail(Code::InvalidRequest, "'" + std::string(key) +
                                        "' is no detach key; use a character or ctrl-LETTER, separated by commas, "
                                        "as in ctrl-p,ctrl-q, or none");
}

}  // namespace

Result<DetachKeys> DetachKeys::parse(std::string_view text) {
  DetachKeys out;
  if (text.empty() || text == "none") return out;
  for (;;) {
    const std::size_t comma = text.find(',');
    auto key = parse_key(text.substr(0, comma));
    if (!key) return Failure(key.error());
    out.keys_.push_back(*key);
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

bool DetachKeys::feed(std::string_view typed, std::string& out) {
  for (const char c : typed) {
    if (keys_.empty()) {
      out.push_back(c);
      continue;
    }
    // The keys held back may themselves contain the beginning of the sequence: "ctrl-p ctrl-p ctrl-q" detaches.
    while (matched_ > 0 && c != keys_[matched_]) {
      const std::string held = keys_.substr(0, matched_);
      std::size_t keep = matched_ - 1;
      while (keep > 0 && held.substr(matched_ - keep) != keys_.substr(0, keep)) --keep;
      out.append(held, 0, matched_ - keep);
      matched_ = keep;
    }
    if (c != keys_[matched_]) {
      out.push_back(c);
    } else if (++matched_ == keys_.size()) {
      matched_ = 0;
      return true;
    }
  }
  return false;
}

}  // namespace osb::cli
