#include "base/out_of_memory.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(OutOfMemory, TheMessageNamesTheLimitInBinaryUnits) {
  const struct {
    std::uint64_t bytes;
    const char* text;
  } rows[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {512 << 10, "512 KiB"},
      {256 << 20, "256 MiB"},
      {(256 << 20) + 1, "256 MiB"},
      {1536ULL << 10, "1.5 MiB"},
      {2ULL << 30, "2 GiB"},
      {UINT64_MAX, "15.9 EiB"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(format_binary_size(row.bytes), row.text);
    EXPECT_EQ(out_of_memory_message(row.bytes), std::string("out of memory (limit ") + row.text + ")");
  }
}

TEST(OutOfMemory, WithoutALimitTheMessageBlamesTheHost) {
  EXPECT_EQ(out_of_memory_message(std::nullopt),
            "out of memory (no memory left on the host or for all sandboxes together)");
  EXPECT_EQ(
      out_of_memory_message(256 << 20, false),
      "out of memory (no memory left on the host or for all sandboxes together; the sandbox is below its limit of "
      "256 MiB)");
}

}  // namespace
}  // namespace osb
