// Message heads and chunked bodies as they come off the wire.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/parser.h"

namespace {

using namespace osb;

// The body bytes that a decoder gives when it is fed `input` in pieces of `piece` bytes; nothing when it is refused.
std::string decode(std::string_view input, std::size_t piece, bool& refused) {
  http::ChunkDecoder decoder;
  std::string waiting;
  std::string out;
  for (std::size_t at = 0; at < input.size(); at += piece) {
    waiting += input.substr(at, piece);
    for (;;) {
      const auto step = decoder.step(waiting);
      if (!step) {
        refused = true;
        return out;
      }
      if (step->consumed > waiting.size() || step->data.size() > step->consumed) std::abort();
      out += step->data;
      waiting.erase(0, step->consumed);
      if (step->done) return out;
      if (step->need_more) break;
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::size_t searched = 0;
  const std::size_t end = http::find_head_end(bytes, searched);
  const std::string_view head = bytes.substr(0, end);
  if (const auto request = http::parse_request_head(head)) {
    // An accepted head must not be readable in two ways.
    if (request->headers.contains("Content-Length") && request->headers.contains("Transfer-Encoding")) std::abort();
    if (request->headers.count("Content-Length") > 1) std::abort();
    if (!request->target.starts_with('/') && request->target != "*") std::abort();
    for (const auto& [name, value] : request->headers) {
      if (name.empty() || value.find_first_of("\r\n") != std::string::npos) std::abort();
    }
  }
  (void)http::parse_response_head(head, false);

  bool refused_whole = false;
  bool refused_bytes = false;
  const std::string whole = decode(bytes.substr(end), size + 1, refused_whole);
  const std::string single = decode(bytes.substr(end), 1, refused_bytes);
  if (refused_whole == refused_bytes && whole != single) std::abort();
  return 0;
}
