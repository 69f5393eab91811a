#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "http/headers.h"
#include "http/url.h"
#include "otlp/metric_document.h"

namespace osb::otlp {

// Returns the value of a variable, or "".
using GetVariable = std::function<std::string(const std::string& name)>;

// Where metrics go: OpenTelemetry's variables, as far as metrics over HTTP need them.
struct Collector {
  http::Url url = {};
  http::Headers headers = {};
  std::chrono::milliseconds interval{60'000};
  std::chrono::milliseconds timeout{10'000};
  Attributes resource = {};  // OTEL_RESOURCE_ATTRIBUTES

  // For http::Client: "192.0.2.1:4318", "https://collector.example:4318"
  std::string origin() const;

  // Nothing: none is configured. `hostinfo` is the file that may hold the address of a host with a collector.
  static Result<std::optional<Collector>> from_environment(const GetVariable& get,
                                                           const std::string& hostinfo = "/etc/hostinfo");
  // `endpoint` is the address of a collector for all signals: "/v1/metrics" comes behind its path.
  static Result<Collector> from_endpoint(const std::string& endpoint);
};

// "k=v,k2=v2"; a part without '=' is skipped.
Attributes parse_attributes(std::string_view text);

}  // namespace osb::otlp
