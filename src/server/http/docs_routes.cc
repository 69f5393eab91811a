#include <stdexcept>

#include "server/http/routes.h"

namespace osb::server {

// Files that the build puts into the program (osb_embed).
std::string_view embedded(std::string_view name);

namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

// The page loads its own script and style and asks this server only; nothing of the document becomes markup.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

http::Handler file(std::string_view name, std::string_view type) {
  const std::string_view text = embedded(name);
  if (text.empty()) throw std::logic_error("not part of the program: " + std::string(name));
  return [text, type](Request&) -> Answer {
    Response response;
    response.headers.set("Content-Type", std::string(type));
    response.headers.set("Cache-Control", "no-cache");
    response.headers.set("X-Content-Type-Options", "nosniff");
    if (type.starts_with("text/html")) response.headers.set("Content-Security-Policy", std::string(kPolicy));
    response.body = std::string(text);
    co_return response;
  };
}

// A page for browsers, plain text for everything else.
http::Handler root_page() {
  const http::Handler page = file("root.html", "text/html; charset=utf-8");
  const http::Handler text = file("root.txt", "text/plain; charset=utf-8");
  return [page, text](Request& request) -> Answer {
    const bool browser = request.headers.get("Accept").contains("text/html");
    Response response = co_await (browser ? page(request) : text(request));
    response.headers.set("Vary", "Accept");
    co_return response;
  };
}

}  // namespace

void add_docs_routes(http::Router& router) {
  router.get("/", root_page());
  const http::Handler page = file("page.html", "text/html; charset=utf-8");
  router.get("/docs", page);
  router.get("/redoc", page);
  router.get("/docs/page.js", file("page.js", "text/javascript; charset=utf-8"));
  router.get("/docs/page.css", file("page.css", "text/css; charset=utf-8"));
  router.get("/openapi.json", file("openapi.json", "application/json"));
}

}  // namespace osb::server
