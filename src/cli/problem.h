#pragma once

#include <expected>
#include <string>
#include <utility>

#include "base/error.h"

namespace osb::cli {

// An error for people and scripts. `message` is one sentence; `hint` is another one that says what to do.
struct Problem {
  std::string title;  // "Sandbox Error", "Execution Error", ..; empty: plain "Error: .."
  std::string code;   // for scripts: "DOCKER::SANDBOX_NOT_FOUND", "INVALID_ARGUMENT", "USAGE", ..
  std::string message;
  std::string hint = {};
  int exit_code = 1;
  int status = 0;  // HTTP status, 0 when there was none
  std::string request_id = {};
};

// The result of an action: osb's exit code, or a problem.
using Outcome = std::expected<int, Problem>;
template <typename T>
using Expected = std::expected<T, Problem>;

// Wrong command line: exit code 2.
inline std::unexpected<Problem> usage_error(std::string message, std::string hint = {}) {
  return std::unexpected(Problem{"", "USAGE", std::move(message), std::move(hint), 2});
}

// Input that was understood and refused, a file that is missing: exit code 1.
inline std::unexpected<Problem> invalid(std::string message, std::string hint = {}) {
  return std::unexpected(Problem{"", "INVALID_ARGUMENT", std::move(message), std::move(hint)});
}

inline std::unexpected<Problem> failed(const Error& error, std::string hint = {}) {
  return std::unexpected(Problem{"", "LOCAL_ERROR", error.message, std::move(hint)});
}

inline std::unexpected<Problem> failed(Problem problem) { return std::unexpected(std::move(problem)); }

}  // namespace osb::cli
