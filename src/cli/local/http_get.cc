#include "cli/local/http_get.h"

#include <optional>

#include <boost/asio/io_context.hpp>

#include "async/run_loop.h"
#include "async/timer.h"
#include "http/client.h"
#include "tls/connector.h"

namespace osb::cli {
namespace {

net::awaitable<Result<HttpAnswer>> get(net::any_io_executor executor, std::string origin, std::string target) {
  http::Client client(tls::make_connector(executor));
  http::ClientRequest request;
  request.target = std::move(target);
  auto answer = co_await client.send(std::move(origin), std::move(request));
  if (!answer) co_return Failure(answer.error());
  auto body = co_await answer->body->read_all(16 << 20);
  if (!body) co_return Failure(body.error());
  co_return HttpAnswer{answer->status, std::move(*body)};
}

}  // namespace

Result<HttpAnswer> http_get(const std::string& url) {
  const std::size_t slash = url.find('/', url.find("://") + 3);
  return http_get(url.substr(0, slash), slash == std::string::npos ? "/" : url.substr(slash));
}

Result<HttpAnswer> http_get(const std::string& origin, const std::string& target) {
  net::io_context loop(1);
  std::optional<Result<HttpAnswer>> out;
  const auto ask = [&]() -> net::awaitable<void> {
    out = co_await with_timeout(get(loop.get_executor(), origin, target), std::chrono::seconds(10));
  };
  run_until_done(loop, ask());
  return std::move(*out);
}

}  // namespace osb::cli
