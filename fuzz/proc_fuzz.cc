// Texts of /proc. A process chooses its own name, its environment and the names of what it mounts.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

#include "sys/mountinfo.h"
#include "sys/proc_stats.h"
#include "sys/process_tree.h"

namespace {

// A /proc whose files all hold the input.
class Proc {
 public:
  Proc() {
    std::filesystem::create_directories(directory_ / "net"), std::filesystem::create_directories(directory_ / "42");
  }
  ~Proc() { std::filesystem::remove_all(directory_); }
  Proc(const Proc&) = delete;
  Proc& operator=(const Proc&) = delete;

  std::string fill(std::string_view text) const {
    for (const char* name : {"meminfo", "stat", "net/dev", "net/sockstat", "net/sockstat6", "42/stat"}) {
      std::ofstream(directory_ / name, std::ios::binary | std::ios::trunc) << text;
    }
    return directory_;
  }

 private:
  std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("proc_fuzz-" + std::to_string(::getpid()));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Proc files;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string proc = files.fill(text);
  (void)osb::sys::host_memory(proc);
  (void)osb::sys::host_cpu_time(proc);
  (void)osb::sys::network_bytes(proc);
  (void)osb::sys::socket_counts(proc);
  if (const auto process = osb::sys::read_process(42, proc); process && process->pid != 42) std::abort();

  const auto mounts = osb::sys::parse_mountinfo(text);
  std::size_t total = 0;
  for (const auto& mount : mounts) {
    total += mount.root.size() + mount.point.size() + mount.type.size() + mount.super_options.size();
  }
  if (total > size) std::abort();
  return 0;
}
