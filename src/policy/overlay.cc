#include "policy/overlay.h"

#include "base/json_escape.h"
#include "policy/text.h"

namespace osb::policy {

Result<std::vector<Rule>> parse_overlay(std::string_view text, Action action) {
  std::vector<Rule> out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    auto rule = make_rule(action, line);
    if (!rule) return with_context("line " + std::to_string(number) + ", " + in_quotes(line), rule.error());
    out.push_back(std::move(*rule));
  }
  return out;
}

}  // namespace osb::policy
