// Answers of a container engine: events, the progress of pulls, containers. The same documents come out however the
// bytes are cut into pieces, progress only grows, and only a container with our label and name is a sandbox.

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <boost/json/serialize.hpp>

#include "runtime/docker/container.h"
#include "runtime/docker/engine_stream.h"

namespace {

using namespace osb::runtime;

std::vector<boost::json::value> documents(std::string_view text, std::size_t step) {
  JsonLines lines;
  std::vector<boost::json::value> out;
  for (std::size_t at = 0; at <= text.size(); at += step) {
    if (at < text.size()) lines.add(text.substr(at, step));
    if (at + step >= text.size()) lines.finish();
    for (;;) {
      auto document = lines.next();
      if (!document) return out;
      if (!*document) break;
      out.push_back(std::move(**document));
    }
    if (at + step >= text.size()) break;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > (1 << 16)) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto all = documents(text, size + 1);
  if (documents(text, 1 + size % 7) != all) std::abort();
  PullProgress progress;
  for (const boost::json::value& each : all) {
    const EngineEvent event = read_event(each);
    if (!event.sandbox.empty() && event.type != "container") std::abort();
    for (const char c : event.time) {
      if (c != '.' && (c < '0' || c > '9')) std::abort();
    }
    const int before = progress.percent();
    if (progress.take(each) != (progress.percent() > before)) std::abort();
    if (progress.percent() > 99) std::abort();
    const Container container = read_container(each, "bridge");
    if (to_instance(container).id != container.sandbox) std::abort();
    (void)container.managed_volumes();
  }
  return 0;
}
