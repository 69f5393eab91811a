#include "execd/code/jupyter/jupyter_server.h"

#include <algorithm>
#include <utility>

#include "async/timer.h"
#include "base/concat.h"
#include "base/deadline.h"
#include "base/id.h"
#include "base/json_escape.h"
#include "http/transport.h"
#include "http/url.h"

namespace osb::execd::jupyter {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnect = 5s;
constexpr auto kShortCall = 10s;
constexpr auto kKernelStart = 25s;  // the server answers when the kernel's process runs
constexpr auto kKernelEnd = 10s;    // the server waits for the kernel, then kills it
constexpr auto kFirstWait = 20ms;
constexpr auto kLongestWait = 500ms;
constexpr auto kYoung = 20s;  // kernels are installed one by one after the server's start
constexpr std::size_t kMaxAnswer = 8 * 1024 * 1024;
constexpr std::size_t kMaxMessage = 64 * 1024 * 1024;

}  // namespace

Result<JupyterServer::Options> JupyterServer::parse(std::string_view text, std::string token) {
  auto url = http::Url::parse(text);
  if (!url) return with_context("JUPYTER_HOST", url.error());
  if (url->host == "localhost") url->host = "127.0.0.1";
  Options out;
  const bool v6 = url->host.find(':') != std::string::npos;
  out.origin = v6 ? concat("[", url->host, "]:", url->port) : concat(url->host, ":", url->port);
  if (url->scheme != "http" || !http::Address::parse(out.origin)) {
    return fail(Code::Unsupported, concat("JUPYTER_HOST=", in_quotes(text),
                                          ": execd reaches Jupyter by http:// and an IP address or localhost only"));
  }
  out.path = url->target.substr(0, url->target.find('?'));
  while (out.path.ends_with('/')) out.path.pop_back();
  out.token = std::move(token);
  return out;
}

JupyterServer::JupyterServer(Options options) : options_(std::move(options)), client_(http::make_plain_connector()) {}

http::Headers JupyterServer::authorization() const {
  http::Headers out;
  out.set("Authorization", "Token " + options_.token);
  return out;
}

net::awaitable<Result<JupyterServer::Answer>> JupyterServer::call(std::string method, std::string path,
                                                                  std::string body, std::chrono::milliseconds limit) {
  const std::string what = concat("Jupyter at ", options_.origin, ": ", method, " ", path);
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = options_.path + path;
  request.headers = authorization();
  if (!body.empty()) request.headers.set("Content-Type", "application/json");
  request.body = std::move(body);
  request.timeouts = {.connect = kConnect, .head = limit, .body_stall = limit};
  auto response = co_await client_.send(options_.origin, std::move(request));
  if (!response) co_return with_context(what, response.error());
  Answer answer{response->status, {}};
  if (response->body) {
    auto text = co_await response->body->read_all(kMaxAnswer);
    if (!text) co_return with_context(what, text.error());
    answer.body = std::move(*text);
  }
  if (!since_first_answer_) since_first_answer_.emplace();
  if (answer.status == 401 || answer.status == 403) {
    co_return fail(Code::Unauthorized, what + ": the server refuses the token; set JUPYTER_TOKEN to its token");
  }
  co_return answer;
}

net::awaitable<Result<std::string>> JupyterServer::find_kernel(std::string language, std::chrono::milliseconds limit) {
  const Deadline end(limit);
  std::chrono::milliseconds wait = kFirstWait;
  for (;;) {
    Error why;
    auto answer = co_await call("GET", "/api/kernelspecs", "", kShortCall);
    if (!answer) {
      why = answer.error();
      if (why.code == Code::Unauthorized) co_return Failure(why);
    } else if (answer->status != 200) {
      why = Error(Code::Unavailable, concat("Jupyter at ", options_.origin, " answers ", answer->status));
    } else {
      auto specs = decode_kernel_specs(answer->body);
      if (!specs) co_return with_context(concat("kernels of Jupyter at ", options_.origin), specs.error());
      if (std::string name = choose_kernel(*specs, language); !name.empty()) co_return name;
      why = Error(Code::Unsupported, concat("Jupyter at ", options_.origin, " has no kernel for language ",
                                            in_quotes(language), "; it has kernels for: ", languages_of(*specs)));
      if (since_first_answer_->elapsed() > kYoung) co_return Failure(why);
    }
    if (end.left() < wait) co_return Failure(why);
    if (!co_await sleep_for(wait)) co_return fail(Code::Cancelled, "cancelled");
    wait = std::min<std::chrono::milliseconds>(wait * 2, kLongestWait);
  }
}

net::awaitable<Result<Session>> JupyterServer::open_session(std::string kernel, std::string cwd) {
  const std::string body = encode_session_request(kernel, cwd, new_hex_id());
  auto answer = co_await call("POST", "/api/sessions", body, kKernelStart);
  if (!answer) co_return Failure(answer.error());
  if (answer->status != 201 && answer->status != 200) {
    co_return fail(Code::Unavailable, concat("Jupyter at ", options_.origin, " does not start kernel ", kernel, ": ",
                                             answer->status, " ", answer->body.substr(0, 512)));
  }
  auto session = decode_session(answer->body);
  if (!session) co_return with_context(concat("new session of Jupyter at ", options_.origin), session.error());
  co_return session;
}

net::awaitable<Result<void>> JupyterServer::close_session(std::string id) {
  auto answer = co_await call("DELETE", "/api/sessions/" + id, "", kKernelEnd);
  if (!answer) co_return Failure(answer.error());
  const bool gone = answer->status / 100 == 2 || answer->status == 404 || answer->status == 410;
  if (!gone) co_return fail(Code::Unavailable, concat("Jupyter at ", options_.origin, " answers ", answer->status));
  co_return Result<void>();
}

net::awaitable<Result<void>> JupyterServer::interrupt(std::string kernel_id) {
  auto answer = co_await call("POST", concat("/api/kernels/", kernel_id, "/interrupt"), "{}", kShortCall);
  if (!answer) co_return Failure(answer.error());
  if (answer->status / 100 != 2) {
    co_return fail(Code::Unavailable, concat("Jupyter at ", options_.origin, " answers ", answer->status));
  }
  co_return Result<void>();
}

net::awaitable<Result<std::unique_ptr<http::WebSocket>>> JupyterServer::open_channels(std::string kernel_id,
                                                                                      std::string client) {
  auto address = http::Address::parse(options_.origin);
  if (!address) co_return Failure(address.error());
  auto transport = co_await http::connect_plain(std::move(*address), kConnect);
  if (!transport) co_return with_context("Jupyter", transport.error());
  http::WebSocket::Options limits;
  limits.max_message_bytes = kMaxMessage;
  limits.ping_interval = 30s;
  limits.read_timeout = 0s;  // a server that has died closes the connection: it is on this machine
  co_return co_await http::websocket_connect(
      std::move(*transport), options_.origin,
      concat(options_.path, "/api/kernels/", kernel_id, "/channels?session_id=", client), authorization(), limits);
}

}  // namespace osb::execd::jupyter
