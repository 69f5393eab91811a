#include "egress/api/audit_routes.h"

#include "egress/api/follow_stream.h"

namespace osb::egress {
namespace {

std::string new_lines(Sandbox& sandbox, std::uint64_t& seen) {
  std::string events;
  for (const std::string& line : sandbox.vault_trail.since(seen)) events += "data: " + line + "\n\n";
  return events;
}

}  // namespace

http::Response audit_response(const SandboxPtr& sandbox, const http::Request& request) {
  if (auto refused = refuse_unless_read(request)) return std::move(*refused);
  if (request.query() == "follow=true") {
    return follow_response(sandbox, {.events = new_lines,
                                     .wait = [](Sandbox& each) { return each.vault_trail.wait(); },
                                     .closed = [](const Sandbox& each) { return each.vault_trail.closed(); }});
  }
  std::string list;
  std::uint64_t seen = 0;
  for (const std::string& line : sandbox->vault_trail.since(seen)) list += (list.empty() ? "" : ",") + line;
  return http::json_response(200, "{\"lines\":[" + list + "]}\n");
}

}  // namespace osb::egress
