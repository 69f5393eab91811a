// The record of the entrypoint's end: it lies where the sandbox can write.

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

#include "base/unique_fd.h"
#include "sandboxd/sandbox/exit_reason.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("exit_record_fuzz-" + std::to_string(::getpid()))).string();
  {
    const osb::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (::write(file.get(), data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  if (const auto status = osb::sandboxd::read_exit_record(path)) {
    if (status->code < -1 || status->code > 255 || status->signal < 0 || status->signal > 127) std::abort();
  }
  const std::string error = osb::sandboxd::read_not_started(path).why;
  if (error.size() > 1000) std::abort();
  for (const char c : error) {
    if (c < ' ' || c > '~') std::abort();
  }
  std::filesystem::remove(path);
  return 0;
}
