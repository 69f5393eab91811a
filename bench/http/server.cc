// The program that bench/http measures: our HTTP server with one route, or our reverse proxy in front of another
// server.
//
//   bench_http_server PORT                    GET /ping on 127.0.0.1:PORT
//   bench_http_server PORT --proxy HOST:PORT  everything goes to that server
//
// Prints "listening" when ready; SIGTERM ends it.

#include "http/server.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "async/net.h"
#include "http/client.h"
#include "http/message.h"
#include "http/reverse_proxy.h"
#include "http/router.h"

namespace {

using namespace osb;

int serve(std::uint16_t port, const char* upstream) {
  net::io_context io(1);
  http::Client client(http::make_plain_connector());
  http::Router router;
  if (upstream != nullptr) {
    const std::string origin = upstream;
    router.add("*", "/{rest*}", [&client, origin](http::Request& request) {
      http::ProxyTarget to;
      to.origin = origin;
      to.target = request.target;
      return http::forward(client, request, std::move(to));
    });
  } else {
    router.get("/ping",
               [](http::Request&) -> net::awaitable<http::Response> { co_return http::text_response(200, "pong"); });
  }
  http::Server server(io.get_executor(), [&router](http::Request& request) { return router.dispatch(request); });
  if (const auto bound = server.listen(http::Address::tcp("127.0.0.1", port)); !bound) {
    std::fprintf(stderr, "%s\n", bound.error().message.c_str());
    return EXIT_FAILURE;
  }
  net::signal_set stop(io, SIGTERM, SIGINT);
  stop.async_wait([&](boost::system::error_code ec, int) {
    if (!ec) net::co_spawn(io, server.stop(std::chrono::milliseconds(0)), net::detached);
  });
  std::puts("listening");
  std::fflush(stdout);
  io.run();
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const bool proxy = argc == 4 && std::strcmp(argv[2], "--proxy") == 0;
  if (argc != 2 && !proxy) {
    std::fprintf(stderr, "usage: %s PORT [--proxy HOST:PORT]\n", argv[0]);
    return EXIT_FAILURE;
  }
  return serve(static_cast<std::uint16_t>(std::atoi(argv[1])), proxy ? argv[3] : nullptr);
}
