#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "http/client.h"
#include "otlp/collector.h"

namespace osb::otlp {

// Sends documents to a collector, as OTLP over HTTP in JSON. One thread.
class Sender {
 public:
  Sender(Collector collector, std::unique_ptr<http::Connector> connector);

  // Until cancelled: one document each interval. `settle`, if given, is told whether the collector took it. A collector
  // that is away is warned about once until it is back.
  net::awaitable<void> run(std::function<std::string()> document, std::function<void(bool sent)> settle = {});
  // Now, within `limit`.
  net::awaitable<Result<void>> send(std::string document, std::chrono::milliseconds limit);

 private:
  const Collector collector_;
  http::Client client_;
};

}  // namespace osb::otlp
