#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The texts that go between execd and a Jupyter server (code-interpreter contract, Jupyter messaging 5.3). All that
// comes is foreign input: unknown fields are ignored, a missing one is empty.
namespace osb::execd::jupyter {

struct KernelSpec {
  std::string name;
  std::string language;
};
// The answer to GET /api/kernelspecs.
Result<std::vector<KernelSpec>> decode_kernel_specs(std::string_view body);
// The name of the kernel for a language; empty: none. The name python3 is never chosen, as the contract has it.
std::string choose_kernel(const std::vector<KernelSpec>& specs, std::string_view language);
// "go, python": the languages that could be chosen, for messages.
std::string languages_of(const std::vector<KernelSpec>& specs);

struct Session {
  std::string id;
  std::string kernel_id;
};
// The body of POST /api/sessions, and its answer. Both ids of a good answer can be part of a path.
std::string encode_session_request(std::string_view kernel, std::string_view cwd, std::string_view hex_id);
Result<Session> decode_session(std::string_view body);

// A message of a kernel.
struct Message {
  enum class Type { Stream, Result, Display, Error, Status, Input, Reply, InfoReply, Other };
  Type type = Type::Other;
  std::string parent_id;  // the request that it belongs to
  bool is_stderr = false;
  std::string text;                         // Stream: the output; Status: the state; Reply: "ok", "error", "aborted"
  std::map<std::string, std::string> data;  // Result, Display: by MIME type
  std::uint64_t count = 0;                  // Result, Reply: the number of the run in the kernel; 0: none
  std::string ename;                        // Error, Reply
  std::string evalue;
  std::vector<std::string> traceback;
};
Result<Message> decode_message(std::string_view text);

// `client` is the id of one connection to a kernel, `id` that of the message.
std::string encode_execute_request(std::string_view id, std::string_view client, std::string_view code);
std::string encode_kernel_info_request(std::string_view id, std::string_view client);

}  // namespace osb::execd::jupyter
