// Archives from strangers, unpacked with the rules of execd, of the SDK and of image layers: nothing appears beside the
// directory, for any contents. The first byte says how the input is cut into pieces.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

#include "archive/tar_reader.h"
#include "archive/unpacker.h"

namespace fs = std::filesystem;

namespace {

osb::archive::UnpackRules rules_of(unsigned which) {
  using Rules = osb::archive::UnpackRules;
  Rules rules;
  rules.max_bytes = 1 << 24;
  if (which == 0) {  // execd
    rules.owners = Rules::Owners::Attempt;
    rules.mode_mask = 07777;
  } else if (which == 1) {  // the SDK
    rules.devices = rules.fifos = Rules::Special::Skip;
  } else {  // a layer
    rules.names.absolute_is_relative = true;
    rules.target = Rules::Target::Private;
    rules.owners = Rules::Owners::Require;
    rules.max_id = 65535;
    rules.mode_mask = 07777;
    rules.devices = Rules::Special::Skip;
    rules.attributes = true;
  }
  return rules;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fs::path around = fs::temp_directory_path() / ("unpack-fuzz-" + std::to_string(::getpid()));
  fs::create_directories(around / "in");
  for (unsigned which = 0; which < 3; ++which) {
    osb::archive::Unpacker unpacker(osb::UniqueFd(::open((around / "in").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                                    rules_of(which));
    osb::archive::TarReader reader(unpacker);
    std::string_view archive(reinterpret_cast<const char*>(data + 1), size - 1);
    const std::size_t piece = std::size_t{1} + data[0];
    bool fine = true;
    for (; fine && !archive.empty(); archive.remove_prefix(std::min(piece, archive.size()))) {
      fine = reader.feed(archive.substr(0, piece)).has_value();
    }
    if (fine && reader.finish()) (void)unpacker.finish();
  }
  for (const auto& entry : fs::directory_iterator(around)) {
    if (entry.path().filename() != "in") std::abort();
  }
  fs::remove_all(around);
  return 0;
}
