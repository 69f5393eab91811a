// A request line's method and target (up to and after the first blank) against routes of every kind.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "http/router.h"

namespace {

using namespace osb::http;

Handler check(bool has_number) {
  return [has_number](Request& request) -> osb::net::awaitable<Response> {
    const std::string& number = request.params["n"];
    if (has_number && (number.empty() || number.find_first_not_of("0123456789") != std::string::npos)) std::abort();
    if (request.route.empty() || request.params["a"].find('\0') != std::string::npos) std::abort();
    co_return empty_response();
  };
}

Router make_router() {
  Router router;
  router.get("/", check(false));
  router.get("/a/{a}", check(false));
  router.post("/a/b", check(false));
  router.get("/a/{n:int}", check(true));
  router.del("/a/{a}/b/{n:int}/c", check(true));
  router.add("*", "/p/{n:int}/{rest*}", check(true));
  return router;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Router router = make_router();
  static osb::net::io_context io(1);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t blank = std::min(input.find(' '), input.size());
  Request request;
  request.method = input.substr(0, blank);
  request.target = input.substr(std::min(blank + 1, input.size()));
  bool done = false;
  auto ask = [&]() -> osb::net::awaitable<void> {
    const Response response = co_await router.dispatch(request);
    switch (response.status) {
      case 200:
      case 400:
      case 404:
        break;
      case 405:
        if (response.headers.get("Allow").empty()) std::abort();
        break;
      default:
        std::abort();
    }
    done = true;
  };
  osb::net::co_spawn(io, ask(), osb::net::detached);
  io.restart();
  io.run();
  if (!done) std::abort();
  return 0;
}
