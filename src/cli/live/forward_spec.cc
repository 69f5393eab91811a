#include "cli/live/forward_spec.h"

#include <optional>
#include <string>

#include "base/parse_number.h"

namespace osb::cli {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text, int lowest) {
  const auto port = parse_number<std::uint16_t>(text);
  return port && *port >= lowest ? port : std::nullopt;
}

}  // namespace

Result<ForwardSpec> parse_forward_spec(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto remote = parse_port(colon == std::string_view::npos ? text : text.substr(colon + 1), 1);
  std::optional<std::uint16_t> local = remote;
  if (colon == 0) local = 0;
  if (colon != std::string_view::npos && colon > 0) local = parse_port(text.substr(0, colon), 0);
  if (!remote || !local) {
    return fail(Code::InvalidRequest,
                "'" + std::string(text) + "' is no port mapping; write LOCAL:REMOTE, as in 8080:80, PORT or :REMOTE");
  }
  return ForwardSpec{*local, *remote};
}

Result<std::vector<ForwardSpec>> parse_forward_specs(const std::vector<std::string>& texts) {
  std::vector<ForwardSpec> out;
  for (const std::string& text : texts) {
    auto spec = parse_forward_spec(text);
    if (!spec) return Failure(spec.error());
    out.push_back(*spec);
  }
  return out;
}

}  // namespace osb::cli
