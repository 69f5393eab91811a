// The state that a session's shell writes at its end; the user's code can write there too. Declarations cover the text
// without holes, and a state that was restored from a dump's own parts is the same state.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "execd/session/shell_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::execd;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto all = split_declarations(text)) {
    std::string joined;
    for (const Declaration& one : *all) {
      if (one.name.empty() || !one.text.contains(one.name)) std::abort();
      joined += one.text;
      joined += '\n';
    }
    if (joined != text && joined != std::string(text) + "\n") std::abort();
  }
  ShellState state("/");
  if (state.accept(text)) {
    const std::string script = state.restore_script({{"HOME", "/root"}, {"A", "1"}});
    if (!state.saved() || !state.cwd().starts_with('/')) std::abort();
    ShellState again("/");
    if (!again.accept(text) || again.restore_script({{"HOME", "/root"}, {"A", "1"}}) != script) std::abort();
  } else if (state.saved()) {
    std::abort();
  }
  return 0;
}
