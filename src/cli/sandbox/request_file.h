#pragma once

#include <optional>
#include <string>

#include <boost/json/object.hpp>

#include "cli/problem.h"

namespace osb::cli {

// The file of `osb sandbox create --file`: the body of POST /sandboxes. `image` may be a string; entrypoint, limits and
// timeout have the SDKs' defaults where the file has none. The server checks the values.
struct RequestFile {
  boost::json::object body;
  std::string source;               // image, snapshotId or templateId
  std::string value;                // of it
  bool has_timeout = false;         // also null, which is "until it is killed"
  std::optional<int> timeout = {};  // seconds
};
Expected<RequestFile> read_request_file(const std::string& path);

}  // namespace osb::cli
