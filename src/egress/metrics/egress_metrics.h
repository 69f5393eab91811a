#pragma once

#include <chrono>
#include <string>

#include "egress/metrics/process_usage.h"
#include "egress/sandbox/sandboxes.h"
#include "otlp/metric_document.h"

namespace osb::egress {

// The metrics of this process and of its sandboxes, as documents for a collector. Names are the contract's.
class EgressMetrics {
 public:
  // `common` goes to every point, `resource` describes this process. `sandboxes` outlives it.
  EgressMetrics(const Sandboxes& sandboxes, ProcessUsage usage, otlp::Attributes resource, otlp::Attributes common);

  std::string document();

 private:
  const Sandboxes& sandboxes_;
  ProcessUsage usage_;
  otlp::Attributes resource_, common_;
  std::chrono::system_clock::time_point started_;
};

}  // namespace osb::egress
