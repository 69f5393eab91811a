#include "cli/egress/rule_text.h"

#include "base/concat.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace osb::cli {
Expected<opensandbox::NetworkRule> parse_target(const std::string& option, std::string action,
                                                const std::string& text) {
  opensandbox::NetworkRule out;
  out.action = std::move(action);
  const auto at = text.find('@');
  out.target = trimmed(std::string_view(text).substr(0, at));
  if (at != std::string::npos) {
    std::string_view rest = std::string_view(text).substr(at + 1);
    for (;;) {
      const auto comma = rest.find(',');
      const auto port = parse_number<std::uint16_t>(trimmed(rest.substr(0, comma)));
      if (!port || *port == 0) {
        return usage_error(concat("Invalid value for '", option, "': '", text, "' has no ports behind '@'."),
                           "Write ports from 1 to 65535 with commas between them, as in 10.0.0.7@443,8443.");
      }
      out.ports.push_back(*port);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  if (out.target.empty() && out.ports.empty()) {
    return usage_error("Invalid value for '" + option + "': the target is empty.",
                       "Use a name, *.name, an address or a network, for example pypi.org.");
  }
  return out;
}

Expected<opensandbox::NetworkRule> parse_rule(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) {
    return usage_error("Invalid value for '--rule': Invalid rule '" + text + "'.",
                       "Use ACTION=TARGET, for example allow=pypi.org.");
  }
  std::string action = lower(trimmed(std::string_view(text).substr(0, equals)));
  if (action != "allow" && action != "deny") {
    return usage_error("Invalid value for '--rule': Invalid rule action '" + action + "'.", "Use allow or deny.");
  }
  return parse_target("--rule", std::move(action), text.substr(equals + 1));
}

}  // namespace osb::cli
