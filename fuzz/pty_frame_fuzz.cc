// Frames of PTY clients: the first byte chooses text or binary. For any frame, sizes and signals are in the range that
// a terminal and kill(2) accept.

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "execd/pty/client_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::execd;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool text = data[0] == 't';
  const ClientFrame frame = decode_client_frame(text, std::string(bytes));
  if (const auto* input = std::get_if<StdinFrame>(&frame)) {
    if (input->bytes.empty()) std::abort();
    if (!text && (bytes[0] != kStdinTag || input->bytes != bytes.substr(1))) std::abort();
  } else if (const auto* signal = std::get_if<SignalFrame>(&frame)) {
    if (!text || signal->number <= 0 || signal->number == SIGSTOP) std::abort();
  } else if (const auto* resize = std::get_if<ResizeFrame>(&frame)) {
    if (!text || resize->columns <= 0 || resize->columns > 0xFFFF || resize->rows <= 0 || resize->rows > 0xFFFF) {
      std::abort();
    }
  } else if (const auto* invalid = std::get_if<InvalidFrame>(&frame)) {
    if (!text || error_text("INVALID_FRAME", invalid->message).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
