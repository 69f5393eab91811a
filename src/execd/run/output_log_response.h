#pragma once

#include <cstdint>
#include <string_view>

#include "execd/run/output_log.h"
#include "http/message.h"

namespace osb::execd {

// The bytes of a log from `cursor` on, as text. The header `cursor_name` holds the next cursor; `skipped_name`, which
// is not in the contract, how many bytes between the cursor and the first byte of the answer are gone. Null: the log
// itself is gone, and ended at `end`.
http::Response output_log_response(const OutputLog* log, std::uint64_t end, std::uint64_t cursor,
                                   std::string_view cursor_name, std::string_view skipped_name);

}  // namespace osb::execd
