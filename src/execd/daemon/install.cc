#include "execd/daemon/install.h"

#include "sys/install_file.h"

namespace osb::execd {

Result<void> install(const std::string& program, const std::string& to) {
  if (auto copied = sys::install_file(program, to, "execd"); !copied) return copied;
  const std::string beside = program.substr(0, program.rfind('/') + 1);
  return sys::install_file(beside + "bootstrap.sh", to, "bootstrap.sh");
}

}  // namespace osb::execd
