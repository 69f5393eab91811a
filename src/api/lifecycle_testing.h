#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/error.h"

namespace osb::api::testing {

// Whether it was refused with this status and code, and names the place and the reason. HTTP statuses by Code, as
// http::status_of has them.
template <typename T>
::testing::AssertionResult refused(const Result<T>& got, int status, std::string_view reason,
                                   std::string_view message) {
  if (got) return ::testing::AssertionFailure() << "was accepted; wanted " << message;
  const Error& error = got.error();
  const Code code = status == 422   ? Code::Unprocessable
                    : status == 409 ? Code::Conflict
                    : status == 404 ? Code::NotFound
                    : status == 501 ? Code::Unsupported
                                    : Code::InvalidRequest;
  if (error.code != code || error.reason != reason || !error.message.starts_with(message)) {
    return ::testing::AssertionFailure() << "code " << static_cast<int>(error.code) << ", reason " << error.reason
                                         << ", message \"" << error.message << "\"; wanted " << status << " " << reason
                                         << " \"" << message << "\"";
  }
  return ::testing::AssertionSuccess();
}

inline constexpr std::string_view kParameter = "SANDBOX::INVALID_PARAMETER";

}  // namespace osb::api::testing
