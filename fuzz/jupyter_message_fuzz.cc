// Answers and messages of a Jupyter server. Code in a kernel writes parts of them, and any program may be the server.
// Ids that are accepted can be part of a path, and the longest traceback is bounded.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "execd/code/jupyter/jupyter_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::execd::jupyter;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto specs = decode_kernel_specs(text)) {
    if (choose_kernel(*specs, "python") == "python3" || languages_of(*specs).empty()) std::abort();
  }
  if (const auto session = decode_session(text)) {
    for (const std::string* id : {&session->id, &session->kernel_id}) {
      if (id->empty() || id->find_first_of("/?#%. \r\n") != std::string::npos) std::abort();
    }
  }
  if (const auto message = decode_message(text); message && message->traceback.size() > 2000) std::abort();
  return 0;
}
