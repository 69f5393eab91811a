#pragma once

#include <chrono>
#include <functional>

namespace osb::server {

// Where the time of a create goes.
enum class CreateStage {
  Store,    // until it was durable
  Queue,    // until it was its turn
  Backend,  // until the backend said Running, or gave up
};

using CreateStageObserver = std::function<void(CreateStage, std::chrono::nanoseconds)>;

}  // namespace osb::server
