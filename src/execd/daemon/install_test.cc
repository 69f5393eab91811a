#include "execd/daemon/install.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/text_file.h"

namespace osb::execd {
namespace {

TEST(Install, BothFilesAreCopiedAndCanBeRun) {
  const osb::testing::TempDir temp;
  std::filesystem::create_directories(temp / "from");
  std::filesystem::create_directories(temp / "to");
  std::ofstream(temp / "from/program") << "program";
  std::ofstream(temp / "from/bootstrap.sh") << "script";
  std::ofstream(temp / "to/execd") << "old";
  ASSERT_TRUE(install((temp / "from/program").string(), (temp / "to").string()));
  EXPECT_EQ(*sys::read_text((temp / "to/execd").string()), "program");
  EXPECT_EQ(*sys::read_text((temp / "to/bootstrap.sh").string()), "script");
  const auto mode = std::filesystem::status(temp / "to/bootstrap.sh").permissions();
  EXPECT_EQ(mode & std::filesystem::perms::all, std::filesystem::perms(0755));
}

TEST(Install, AMissingFileIsNamed) {
  const osb::testing::TempDir temp;
  std::ofstream(temp / "program") << "program";
  const auto done = install((temp / "program").string(), temp.path().string());
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("bootstrap.sh"), std::string::npos);
  EXPECT_FALSE(install((temp / "program").string(), "/no/such/directory"));
}

}  // namespace
}  // namespace osb::execd
