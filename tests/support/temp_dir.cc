#include "support/temp_dir.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace osb::testing {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "osb-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace osb::testing
