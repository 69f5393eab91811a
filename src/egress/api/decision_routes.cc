#include "egress/api/decision_routes.h"

#include "egress/api/follow_stream.h"

namespace osb::egress {
namespace {

std::string new_decisions(Sandbox& sandbox, std::uint64_t& seen) {
  std::string events;
  for (const Decision& each : sandbox.decisions.since(seen)) {
    events += "data: " + to_json(each) + "\n\n";
    seen = each.seq;
  }
  return events;
}

}  // namespace

http::Response decisions_response(const SandboxPtr& sandbox, const http::Request& request) {
  if (auto refused = refuse_unless_read(request)) return std::move(*refused);
  if (request.query() == "follow=true") {
    return follow_response(sandbox, {.events = new_decisions,
                                     .wait = [](Sandbox& each) { return each.decisions.wait(); },
                                     .closed = [](const Sandbox& each) { return each.decisions.closed(); }});
  }
  std::string list;
  for (const Decision& each : sandbox->decisions.since(0)) list += (list.empty() ? "" : ",") + to_json(each);
  return http::json_response(200, "{\"decisions\":[" + list + "]}\n");
}

}  // namespace osb::egress
