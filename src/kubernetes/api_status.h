#pragma once

#include <string_view>

#include <boost/json/object.hpp>

#include "base/error.h"

namespace osb::kubernetes {

// The API server's own words for refusals, in Error::reason.
namespace reasons {
inline constexpr std::string_view kNotFound = "NotFound";
inline constexpr std::string_view kAlreadyExists = "AlreadyExists";
inline constexpr std::string_view kConflict = "Conflict";
inline constexpr std::string_view kExpired = "Expired";  // also "Gone": a resource version that is no longer kept
inline constexpr std::string_view kGone = "Gone";
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kForbidden = "Forbidden";
}  // namespace reasons

// A Status object, or another body, of an answer with that HTTP status. `reason` and message are the server's; the code
// follows the status.
Error api_error(int http_status, std::string_view body);
// The same for the Status of an ERROR event; it has its own HTTP status.
Error api_error(const boost::json::object& status);

inline bool is_not_found(const Error& error) { return error.code == Code::NotFound; }
inline bool already_exists(const Error& error) { return error.reason == reasons::kAlreadyExists; }
// The object has changed since it was read.
inline bool is_conflict(const Error& error) { return error.code == Code::Conflict && !already_exists(error); }
// A list has to be read again.
inline bool is_expired(const Error& error) {
  return error.reason == reasons::kExpired || error.reason == reasons::kGone;
}

}  // namespace osb::kubernetes
