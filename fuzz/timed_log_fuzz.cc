#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/timed_log.h"

// Cut at the place that the first byte tells, the pieces carry the same bytes as without a cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view log(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = log.empty() ? 0 : data[0] % log.size();
  std::vector<osb::LogPiece> pieces;
  osb::TimedLogReader reader;
  reader.feed(log.substr(0, cut), pieces);
  reader.feed(log.substr(cut), pieces);
  reader.finish(pieces);
  std::string text;
  for (const osb::LogPiece& piece : pieces) text += piece.text;
  if (text != osb::without_log_stamps(log)) std::abort();
  return 0;
}
