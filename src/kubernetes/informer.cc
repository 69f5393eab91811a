#include "kubernetes/informer.h"

#include <boost/asio/this_coro.hpp>

#include "base/log.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes {

Informer::Informer(net::any_io_executor executor, Client& client, Options options)
    : client_(client),
      options_(std::move(options)),
      synced_(std::move(executor)),
      pauses_(options_.first_pause, options_.last_pause) {}

ObjectPtr Informer::trimmed(const ObjectPtr& object) const {
  if (!options_.trim && kubernetes::find(*object, {"metadata", "managedFields"}) == nullptr) return object;
  json::object copy = *object;
  make_object(copy, {"metadata"}).erase("managedFields");
  if (options_.trim) options_.trim(copy);
  return std::make_shared<const json::object>(std::move(copy));
}

void Informer::observe(json::object object) {
  cache_.observe(trimmed(std::make_shared<const json::object>(std::move(object))));
}

net::awaitable<Result<void>> Informer::list() {
  std::vector<ObjectPtr> items;
  ListOptions options{.labels = options_.labels, .fields = options_.fields, .limit = options_.page};
  std::string version;
  do {
    auto page = co_await client_.list(options_.resource, options_.ns, options);
    if (!page) co_return Failure(page.error());
    for (const ObjectPtr& each : page->items) items.push_back(trimmed(each));
    version = std::move(page->version);
    options.next = std::move(page->next);
  } while (!options.next.empty());
  if (version.empty())
    co_return fail(Code::Internal, "list of " + options_.resource.to_string() + " without a version");
  cache_.replace(items, version);
  synced_.set();
  co_return Result<void>();
}

net::awaitable<Result<void>> Informer::follow() {
  auto watch = co_await client_.watch(options_.resource, options_.ns,
                                      {options_.labels, options_.fields, cache_.version(), options_.watch_time});
  if (!watch) co_return Failure(watch.error());
  set_problem("");
  for (;;) {
    auto event = co_await (*watch)->next();
    if (!event) co_return Failure(event.error());
    if (!*event) co_return Result<void>();
    pauses_.reset();
    const ObjectPtr& object = (*event)->object;
    switch ((*event)->type) {
      case WatchEvent::Type::Added:
      case WatchEvent::Type::Modified:
        cache_.apply(trimmed(object));
        break;
      case WatchEvent::Type::Deleted:
        cache_.remove(*object);
        break;
      case WatchEvent::Type::Bookmark:
        cache_.progress(version_of(*object));
        break;
    }
  }
}

void Informer::set_problem(std::string problem) {
  if (problem == problem_) return;
  problem_ = std::move(problem);
  if (options_.on_problem) options_.on_problem(problem_);
}

void Informer::failed(const Error& error) {
  set_problem(error.message);
  log_warn("kubernetes watch interrupted", {{"resource", options_.resource.to_string()}, {"error", error.message}});
}

net::awaitable<void> Informer::run() {
  for (;;) {
    const std::string before = cache_.version();
    const auto began = client_.clock().steady_now();
    auto done = before.empty() ? co_await list() : co_await follow();
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
    if (done && before.empty()) continue;
    if (!done && is_expired(done.error())) {
      cache_.forget_version();
      log_info("kubernetes watch starts again with a list", {{"resource", options_.resource.to_string()}});
    } else if (!done) {
      failed(done.error());
    }
    // A watch that has brought nothing and ended early must not become a busy loop.
    const bool useful =
        done && (cache_.version() != before || client_.clock().steady_now() - began >= options_.first_pause);
    if (useful) continue;
    if (!co_await client_.sleep(pauses_.next())) co_return;
  }
}

}  // namespace osb::kubernetes
