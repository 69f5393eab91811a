#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/rotating_file.h"
#include "http/message.h"

namespace osb::server {

// The actions of each API key on sandboxes, one JSON object per line:
//   {"time":..,"action":"create","status":202,"sandbox":..,"key":"3f9a0c1b2d4e","peer":..,"request_id":..}
// `key` is a fingerprint of the API key and `code` the contract's code of a refusal; no bodies, queries, headers, file
// names or commands. Requests that need the key are always written. A request through the proxy needs no key of ours,
// so only one that ran something in the sandbox is written: strangers cannot push real entries out of the file.
class AuditLog {
 public:
  // An empty path: entries go to the program's log, as event "audit".
  static Result<AuditLog> open(const std::string& path, std::uint64_t rotate_bytes, int keep_files);

  // Writes an entry if this is a request that counts. Called when the answer is known, on the loop.
  void note(const http::Request& request, const http::Response& response);

 private:
  AuditLog() = default;
  std::optional<RotatingFile> file_;
};

// Around the router, behind the API key. `log` outlives the handler.
http::Handler with_audit(http::Handler inner, AuditLog& log);

// The action of a request that gets an entry, by method and route, without /v1; "" for others.
std::string_view audited_action(std::string_view method, std::string_view route);

// Twelve hexadecimal digits that tell keys apart and nothing about them.
std::string key_fingerprint(std::string_view key);

}  // namespace osb::server
