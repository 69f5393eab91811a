#include "execd/init/exit_record.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

TEST(ExitRecord, IsReplacedAsAWhole) {
  const testing::TempDir dir;
  ExitRecord record;
  record.finished_at = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'735'787'045'600));
  record.status = {3, 0};
  ASSERT_TRUE(write_exit_record(dir.path().string(), record));
  record.status = {0, 9};
  record.error = "a \"quoted\" reason";
  ASSERT_TRUE(write_exit_record(dir.path().string(), record));
  std::ifstream file(dir / "exit.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(
      text,
      "{\"code\":0,\"signal\":9,\"finished_at\":\"2025-01-02T03:04:05.6Z\",\"error\":\"a \\\"quoted\\\" reason\"}\n");
  EXPECT_EQ(record.shell_code(), 137);
  record.hook_failed = true;
  EXPECT_TRUE(record.to_json().ends_with(",\"hook_failed\":true}\n")) << record.to_json();
}

TEST(ExitRecord, ADirectoryThatIsMissingIsAnError) {
  const testing::TempDir dir;
  EXPECT_FALSE(write_exit_record(dir / "missing", {}));
}

}  // namespace
}  // namespace osb::execd
