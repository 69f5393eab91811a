#include "archive/entry_name.h"

#include <algorithm>

#include "base/concat.h"
#include "base/json_escape.h"

namespace osb::archive {
namespace {

constexpr std::size_t kMaxComponent = 255;
constexpr std::size_t kMaxPath = 4095;

Failure refuse(std::string_view why) { return fail(Code::InvalidRequest, std::string(why)); }

}  // namespace

Failure refuse_entry(std::string_view archive, std::string_view entry, std::string_view why) {
  return refuse(concat(archive, " entry ", in_quotes(entry, 200), ": ", why));
}

Result<EntryName> parse_entry_name(std::string_view text, const NameRules& rules) {
  if (text.starts_with('/') && !rules.absolute_is_relative) return refuse("absolute names are not allowed");
  if (text.contains('\0')) return refuse("a name with a NUL byte");
  EntryName out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse("'..' is not allowed");
    if (out.leaf.size() > kMaxComponent || part.size() > rules.longest_leaf) {
      return refuse("a name is longer than 255 bytes");
    }
    if (!out.leaf.empty()) {
      if (!out.parent.empty()) out.parent += '/';
      out.parent += out.leaf;
    }
    out.leaf = part;
  }
  if (out.parent.size() + out.leaf.size() >= kMaxPath) return refuse("the path is too long");
  return out;
}

}  // namespace osb::archive
