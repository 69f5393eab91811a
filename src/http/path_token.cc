#include "http/path_token.h"

#include <algorithm>

#include "base/text.h"
#include "http/url.h"

namespace osb::http {
namespace {

constexpr std::string_view kName = "access-token";
constexpr std::string_view kHidden = "***";

bool is_plain(char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; }

}  // namespace

bool fits_path(std::string_view secret) { return !secret.empty() && std::ranges::all_of(secret, is_plain); }

std::string path_of_token(std::string_view secret) { return std::string(kPathTokenPrefix).append(secret); }

std::optional<std::string> take_path_token(std::string& target) {
  if (!target.starts_with(kPathTokenPrefix)) return std::nullopt;
  const std::size_t end = std::min(target.find_first_of("/?", kPathTokenPrefix.size()), target.size());
  std::string secret = target.substr(kPathTokenPrefix.size(), end - kPathTokenPrefix.size());
  target.erase(0, end);
  if (!target.starts_with('/')) target.insert(0, 1, '/');
  return secret;
}

std::string loggable_path(std::string_view path) {
  std::string out;
  bool hide = false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    const auto decoded = percent_decode(segment);
    const std::string plain = decoded ? lower(*decoded) : "";
    // A segment that cannot be decoded may be the token's name.
    const bool named = !decoded || plain.find(kName) != std::string::npos;
    out += !segment.empty() && (hide || (named && plain != kName)) ? kHidden : segment;
    if (!segment.empty()) hide = named;
    if (end < path.size()) out += '/';
    begin = end + 1;
  }
  return out;
}

}  // namespace osb::http
