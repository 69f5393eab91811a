#pragma once

#include <opensandbox/error.h>

namespace opensandbox {

// The sandbox answers and has no such file. A 404 with another code is about the sandbox itself.
inline bool is_missing_file(const Error& error) {
  return error.not_found() && error.code.find("FILE_NOT_FOUND") != std::string::npos;
}

}  // namespace opensandbox
