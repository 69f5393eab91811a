#include "intercept/opened_connection.h"

#include <chrono>
#include <utility>

#include "base/stopwatch.h"
#include "intercept/first_bytes.h"

namespace osb::intercept {
namespace {

constexpr std::chrono::milliseconds kConnect{15'000};
// A model that thinks before its first byte takes minutes; the client has its own patience.
constexpr std::chrono::milliseconds kAnswer{600'000};

http::Response answer(int status, std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return http::text_response(status, std::move(text));
}

}  // namespace

OpenedConnection::OpenedConnection(Rules& rules, http::Client& client, Flow flow, std::string scheme, std::string host)
    : rules_(rules),
      client_(client),
      flow_(flow),
      scheme_(std::move(scheme)),
      host_(std::move(host)),
      origin_(scheme_ + "://" + host_ + ":" + std::to_string(flow.port)) {}

net::awaitable<http::Response> OpenedConnection::handle(http::Request& request) {
  if (auto refused = refuse(request)) co_return std::move(*refused);
  const Stopwatch time;
  const std::string method = request.method;
  const Verdict verdict = rules_.judge(flow_, scheme_, host_, request);
  http::Response response = verdict.kind == Verdict::Kind::Answer ? answer(verdict.status, verdict.message)
                                                                  : co_await forward(request, verdict);
  rules_.finished(flow_, verdict, {host_, method, response.status, time.elapsed()});
  co_return response;
}

std::optional<http::Response> OpenedConnection::refuse(const http::Request& request) const {
  const auto host = parse_host_field(request.headers.get("Host"));
  if (!host || host->name != host_ || host->port.value_or(flow_.port) != flow_.port) {
    return answer(421, "the request's Host is not " + host_ + ", the host of this connection");
  }
  // It would send the credentials back in the body.
  if (request.method == "TRACE") return answer(405, "TRACE is not passed on to hosts with credentials");
  if (request.target.contains('#')) return answer(400, "the request target has a fragment");
  const Admission admission = rules_.admit(flow_, scheme_ == "https" ? Protocol::Tls : Protocol::Http, host_);
  if (admission.kind != Admission::Kind::Refuse) return std::nullopt;
  http::Response response = answer(403, admission.why);
  response.close = true;
  return response;
}

http::ProxyTarget OpenedConnection::target_for(const http::Request& request, const Verdict& verdict) const {
  http::ProxyTarget out;
  out.origin = origin_;
  out.target = verdict.target.value_or(request.target);
  out.add = verdict.headers;
  out.confidential = verdict.kind == Verdict::Kind::Edit;
  // A compressed body could not be cleaned.
  if (verdict.filter_answer) out.add.set("Accept-Encoding", "identity");
  out.timeouts.connect = kConnect;
  out.timeouts.head = kAnswer;
  out.on_error = [subject = verdict.subject, host = host_](const Error& error) {
    const int status = error.code == Code::Timeout ? 504 : 502;
    return answer(status, (subject.empty() ? host : subject) + ": " + error.message);
  };
  return out;
}

net::awaitable<http::Response> OpenedConnection::forward(http::Request& request, const Verdict& verdict) {
  // Behind any other protocol requests would not be judged, nor answers cleaned. A server answers without the upgrade.
  if (!http::iequals(request.headers.get("Upgrade"), "websocket") || request.headers.count("Upgrade") != 1) {
    request.headers.remove("Upgrade");
  }
  if (verdict.filter_request && request.body->length() != 0u) {
    request.body = filtered(request.body, verdict.filter_request());
  }
  http::Response response = co_await http::forward(client_, request, target_for(request, verdict));
  clean(response, verdict);
  co_return response;
}

void OpenedConnection::clean(http::Response& response, const Verdict& verdict) const {
  if (verdict.clean_value) response.headers.change_values(verdict.clean_value);
  if (!verdict.filter_answer) return;
  const std::string_view coding = response.headers.get("Content-Encoding");
  if (!coding.empty() && !http::iequals(coding, "identity")) {
    response = answer(502, verdict.subject + ": the host compressed its answer, so that secrets in it cannot be found");
    return;
  }
  filter_body(response, verdict.filter_answer());
}

}  // namespace osb::intercept
