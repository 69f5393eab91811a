#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/body.h"
#include "http/message.h"

namespace osb::intercept {

// Changes a body while it streams. It may hold bytes back until it has seen enough.
class StreamFilter {
 public:
  virtual ~StreamFilter() = default;
  virtual void write(std::string_view piece, std::string& out) = 0;
  virtual void finish(std::string& out) = 0;
};
using MakeStreamFilter = std::function<std::unique_ptr<StreamFilter>()>;

// A body that comes out of a filter. Its length is unknown.
std::shared_ptr<http::BodySource> filtered(std::shared_ptr<http::BodySource> body,
                                           std::unique_ptr<StreamFilter> filter);

// Puts the answer's body, text or stream, through the filter. Files and upgrades stay as they are.
void filter_body(http::Response& response, std::unique_ptr<StreamFilter> filter);

}  // namespace osb::intercept
