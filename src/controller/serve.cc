#include "controller/serve.h"

#include <chrono>
#include <memory>
#include <utility>

#include "async/race.h"
#include "base/log.h"
#include "controller/sandbox/tasks.h"
#include "http/middleware.h"
#include "http/router.h"
#include "http/server.h"
#include "kubernetes/client.h"
#include "kubernetes/lease.h"

namespace osb::controller {
namespace {

// The state that the endpoints show. The controller exists only while the process leads.
struct Life {
  std::unique_ptr<Controller> controller;
  bool leads = false;
};

http::Handler answer(http::Router& router) {
  return http::with_fence([&router](http::Request& request) { return router.dispatch(request); });
}

void add_health(http::Router& router, const Life& life) {
  router.get("/healthz",
             [](http::Request&) -> net::awaitable<http::Response> { co_return http::text_response(200, "ok"); });
  // A candidate that waits for the lease is ready: it takes over at any time.
  router.get("/readyz", [&life](http::Request&) -> net::awaitable<http::Response> {
    const bool ready = !life.leads || (life.controller && life.controller->synced());
    co_return ready ? http::text_response(200, "ok") : http::text_response(503, "the cluster is being read");
  });
}

void add_metrics(http::Router& router, const Life& life) {
  router.get("/metrics", [&life](http::Request&) -> net::awaitable<http::Response> {
    Figures figures;
    if (life.controller) figures = life.controller->figures();
    figures.leads = life.leads;
    http::Response response = http::text_response(200, render_metrics(figures));
    response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    co_return response;
  });
}

net::awaitable<Result<void>> lead(net::any_io_executor executor, kubernetes::Client& client, const CommandLine& line,
                                  const std::string& identity, Life& life) {
  HttpTaskExecutors executors;
  const auto work = [&]() -> net::awaitable<void> {
    struct Leading {
      explicit Leading(Life& l) : life(l) { life.leads = true; }
      ~Leading() {
        life.leads = false;
        life.controller.reset();
      }
      Leading(const Leading&) = delete;
      Life& life;
    } leading(life);
    log_info("controller leads", {{"identity", identity}});
    life.controller = std::make_unique<Controller>(executor, client, executors, line.controller);
    co_await life.controller->run();
  };
  if (!line.leader_elect) {
    co_await work();
    co_return Result<void>();
  }
  kubernetes::LeaseOptions options{.ns = line.lease_namespace, .name = line.lease_name, .identity = identity};
  kubernetes::LeaderElection election(client, std::move(options));
  co_return co_await election.lead(work);
}

}  // namespace

net::awaitable<Result<void>> serve(net::any_io_executor executor, kubernetes::ClusterConfig cluster, CommandLine line,
                                   std::string identity) {
  kubernetes::ClientOptions options;
  options.read_qps = options.write_qps = line.qps;
  options.read_burst = options.write_burst = line.burst;
  options.user_agent = "sandbox-k8s-controller/1.0";
  auto client = kubernetes::Client::open(executor, std::move(cluster), std::move(options));
  if (!client) co_return Failure(client.error());
  Life life;
  http::Router health_routes, metrics_routes;
  add_health(health_routes, life);
  add_metrics(metrics_routes, life);
  http::Server health(executor, answer(health_routes)), metrics(executor, answer(metrics_routes));
  if (line.health) {
    const auto bound = health.listen(*line.health);
    if (!bound) co_return with_context("--health-probe-bind-address", bound.error());
  }
  if (line.metrics) {
    const auto bound = metrics.listen(*line.metrics);
    if (!bound) co_return with_context("--metrics-bind-address", bound.error());
    log_info("metrics are served", {{"address", bound->to_string()}});
  }
  co_return co_await lead(executor, **client, line, identity, life);
}

}  // namespace osb::controller
