#include "execd/code/one_file_archive.h"

#include <gtest/gtest.h>

#include "base/concat.h"

namespace osb::execd {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

// The bytes that Python's zipfile writes for the same file and date, but for the attributes.
TEST(OneFileArchive, HasTheFileItsChecksumAndADirectory) {
  const std::string about =
      bytes({10, 0, 0, 0, 0, 0, 0, 0, 33, 0, 0x26, 0x39, 0xF4, 0xCB, 9, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0});
  const std::string file = concat("PK\3\4", about, "a.b", "123456789");
  const std::string directory =
      concat("PK\1\2", bytes({10, 0}), about, bytes({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), "a.b");
  EXPECT_EQ(one_file_archive("a.b", "123456789"),
            concat(file, directory, "PK\5\6", bytes({0, 0, 0, 0, 1, 0, 1, 0, 49, 0, 0, 0, 42, 0, 0, 0, 0, 0})));
}

}  // namespace
}  // namespace osb::execd
