#include "server/template/template_probe.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/line_splitter.h"

namespace osb::server {
namespace {

constexpr std::string_view kTokenField = "X-EXECD-ACCESS-TOKEN";
// execd ends a command at its time; its answer about that takes a moment more.
constexpr std::chrono::seconds kGrace(5);
constexpr std::size_t kMostOutput = 200;
constexpr std::size_t kMostLine = 1 << 20;

http::ClientRequest request_to(const runtime::Route& execd, std::string_view path, const std::string& token,
                               std::chrono::milliseconds limit) {
  http::ClientRequest request;
  request.target = execd.path + std::string(path);
  request.headers.set(kTokenField, token);
  request.timeouts.connect = request.timeouts.head = limit;
  request.timeouts.body_stall = limit;
  return request;
}

// The events of a command, one JSON object per line, down to its end.
class CommandEvents {
 public:
  void take(std::string_view line) {
    if (line.starts_with("data:")) line.remove_prefix(5);
    const auto value = line.empty() ? Result<boost::json::value>(nullptr) : api::parse_json(line);
    if (!value || !value->is_object()) return;
    api::ObjectReader r(*value, {});
    const std::string type = r.optional_string("type").value_or("");
    if (type == "stdout" || type == "stderr") {
      last_line_ = r.optional_string("text").value_or("").substr(0, kMostOutput);
    } else if (type == "execution_complete") {
      ended_well_ = true;
    } else if (type == "error") {
      r.object("error", [&](api::ObjectReader& error) { end_ = error.optional_string("evalue").value_or("?"); });
    }
  }
  ProbeAnswer answer() const {
    if (ended_well_ && end_.empty()) return {true, ""};
    return {false, "the command ended with " + (end_.empty() ? "no word about it" : end_) +
                       (last_line_.empty() ? "" : "; its last line: " + last_line_)};
  }

 private:
  bool ended_well_ = false;
  std::string end_, last_line_;
};

net::awaitable<Result<ProbeAnswer>> ask_port(http::Client& client, runtime::Route execd, std::string token,
                                             std::uint16_t port, std::chrono::milliseconds limit) {
  http::ClientRequest request = request_to(execd, "/tunnel/" + std::to_string(port), token, limit);
  request.headers.set("Connection", "Upgrade");
  request.headers.set("Upgrade", "websocket");
  request.headers.set("Sec-WebSocket-Version", "13");
  request.headers.set("Sec-WebSocket-Key", "b3BlbnNhbmRib3gtcHJvYg==");  // of a connection that ends at once
  auto answer = co_await client.send(execd.origin, std::move(request));
  if (!answer) co_return Failure(answer.error());
  if (answer->status == 101) co_return ProbeAnswer{true, ""};
  if (answer->status == 502) co_return ProbeAnswer{false, "nothing listens on port " + std::to_string(port)};
  co_return fail(Code::Internal, "execd answered the probe with status " + std::to_string(answer->status));
}

net::awaitable<Result<ProbeAnswer>> ask_command(http::Client& client, runtime::Route execd, std::string token,
                                                std::string command, std::chrono::milliseconds limit) {
  http::ClientRequest request = request_to(execd, "/command", token, limit + kGrace);
  request.method = "POST";
  request.headers.set("Content-Type", "application/json");
  request.body = boost::json::serialize(boost::json::object{{"command", command}, {"timeout", limit.count()}});
  auto answer = co_await client.send(execd.origin, std::move(request));
  if (!answer) co_return Failure(answer.error());
  if (answer->status != 200) {
    co_return fail(Code::Internal, "execd answered the probe with status " + std::to_string(answer->status));
  }
  LineSplitter lines;
  CommandEvents events;
  for (;;) {
    const auto piece = co_await answer->body->read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) break;
    lines.feed(*piece, [&](std::string_view line) { events.take(line); });
    if (lines.pending() > kMostLine) co_return fail(Code::Internal, "the probe's command prints too long a line");
  }
  co_return events.answer();
}

}  // namespace

net::awaitable<Result<ProbeAnswer>> ask_probe(http::Client& client, runtime::Route execd, std::string token,
                                              api::TemplateProbe probe, std::chrono::milliseconds limit) {
  if (probe.port != 0) return ask_port(client, std::move(execd), std::move(token), probe.port, limit);
  return ask_command(client, std::move(execd), std::move(token), std::move(probe.command), limit);
}

}  // namespace osb::server
