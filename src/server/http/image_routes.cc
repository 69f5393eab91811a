#include <chrono>
#include <deque>

#include "api/lifecycle_error.h"
#include "api/lifecycle_image.h"
#include "api/lifecycle_sandbox.h"
#include "async/race.h"
#include "async/timer.h"
#include "http/url.h"
#include "server/http/answer.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

using namespace race;
using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

// Messages of the pull that are not sent to the client yet. Of progress only the latest matters.
struct PullFeed {
  explicit PullFeed(net::any_io_executor executor) : changed(std::move(executor)) {}
  std::deque<std::string> lines;
  bool over = false;
  Notifier changed;
};

constexpr std::size_t kMaxLines = 256;
constexpr std::chrono::seconds kPing(15);

net::awaitable<void> run_pull(runtime::ImageStore& images, api::PullImage image, PullFeed& feed) {
  const auto pulled = co_await images.pull(std::move(image), [&](const api::PullProgress& progress) {
    if (feed.lines.size() >= kMaxLines) feed.lines.pop_front();
    feed.lines.push_back(api::encode_pull_progress(unix_millis(), progress));
    feed.changed.notify_all();
  });
  feed.lines.push_back(pulled ? api::encode_pull_complete(unix_millis(), *pulled)
                              : api::encode_pull_error(unix_millis(), pulled.error()));
  feed.over = true;
  feed.changed.notify_all();
}

// Begins at once and never pauses for longer than a ping: a registry may take minutes to say anything, and a layer to
// unpack, and neither client nor proxy must take that for a dead connection.
net::awaitable<Result<void>> send_feed(PullFeed& feed, http::BodyWriter& out) {
  if (auto begun = co_await out.flush(); !begun) co_return begun;
  for (;;) {
    while (!feed.lines.empty()) {
      const std::string line = feed.lines.front() + "\n\n";
      feed.lines.pop_front();
      if (auto sent = co_await out.write(line); !sent) co_return sent;
    }
    if (feed.over) co_return Result<void>();
    const auto outcome = co_await (feed.changed.wait() || sleep_for(kPing));
    if (outcome.index() == 1) {
      feed.lines.push_back(api::encode_ping_event(unix_millis()));
    } else if (!std::get<0>(outcome)) {
      co_return fail(Code::Cancelled, "the server is ending");
    }
  }
}

net::awaitable<Result<void>> send_pull(runtime::ImageStore& images, api::PullImage image, http::BodyWriter& out) {
  PullFeed feed(co_await net::this_coro::executor);
  co_return co_await (run_pull(images, std::move(image), feed) && send_feed(feed, out));
}

// All tenants share the images.
Result<runtime::ImageStore*> image_store(const SandboxService& service) {
  if (runtime::ImageStore* images = service.backend().images()) return images;
  return api::refuse(Code::Unsupported, service.reason("IMAGES_NOT_SUPPORTED"),
                     "this backend has no image store of its own");
}

// For changes that other tenants would notice.
Result<runtime::ImageStore*> administered_image_store(const SandboxService& service, const Principal& who) {
  if (auto allowed = require_administrator(who, "images are shared by all tenants"); !allowed) {
    return Failure(allowed.error());
  }
  return image_store(service);
}

Answer list(SandboxService& service, PrincipalPtr, Request&) {
  const auto images = image_store(service);
  if (!images) co_return refusal(images.error());
  const auto stored = co_await (*images)->list();
  if (!stored) co_return refusal(stored.error());
  co_return http::json_response(200, api::encode_image_list(*stored));
}

Answer pull(SandboxService& service, PrincipalPtr, Request& request) {
  const auto images = image_store(service);
  if (!images) co_return refusal(images.error());
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  auto image = api::decode_pull_image(*body);
  if (!image) co_return refusal(image.error());
  co_return http::event_stream([&store = **images, wanted = std::move(*image)](http::BodyWriter& out) mutable {
    return send_pull(store, std::move(wanted), out);
  });
}

// It can replace an image of the same name.
Answer load(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto images = administered_image_store(service, *who);
  if (!images) co_return refusal(images.error());
  const http::Query query = http::Query::parse(request.query());
  const auto stored = co_await (*images)->load(request.body, std::string(query.get("name")));
  if (!stored) co_return refusal(stored.error());
  co_return http::json_response(201, api::encode_image_list(*stored));
}

Answer remove(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto images = administered_image_store(service, *who);
  if (!images) co_return refusal(images.error());
  const http::Query query = http::Query::parse(request.query());
  const std::string uri(query.get("uri"));
  if (uri.empty()) co_return refusal(api::unprocessable("query/uri", "names the image and must not be empty").error());
  const auto removed = co_await (*images)->remove(uri, query.get("force") == "true");
  co_return removed ? http::empty_response(204) : refusal(removed.error());
}

}  // namespace

void add_image_routes(http::Router& router, RouteContext& context) {
  add_both(router, context, "GET", "/images", list);
  add_both(router, context, "POST", "/images/pull", pull);
  add_both(router, context, "POST", "/images/load", load);
  add_both(router, context, "DELETE", "/images", remove);
}

}  // namespace osb::server
