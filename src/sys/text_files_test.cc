#include "sys/text_files.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sys {
namespace {

class TextFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ + "/" + name) << text; }

  const osb::testing::TempDir own_;
  const std::string dir_ = own_.path().string();
};

TEST_F(TextFiles, ReadsFilesOfTheSuffixInOrder) {
  write("b.toml", "B");
  write("a.toml", "A");
  write(".hidden.toml", "x");
  write("a.toml.bak", "x");
  std::filesystem::create_directory(dir_ + "/d.toml");
  std::filesystem::create_symlink("a.toml", dir_ + "/c.toml");
  ASSERT_EQ(::mkfifo((dir_ + "/f.toml").c_str(), 0600), 0);
  const auto files = read_text_files(dir_, ".toml");
  ASSERT_TRUE(files) << files.error().message;
  std::string shown;
  for (const TextFile& file : *files) shown += file.name + "=" + file.text + " ";
  EXPECT_EQ(shown, "a.toml=A b.toml=B c.toml=A ");
}

TEST_F(TextFiles, FailsInsteadOfLeavingFilesOut) {
  write("a.toml", "long");
  write("b.toml", "");
  EXPECT_EQ(read_text_files(dir_, ".toml", {.files = 1}).error().code, Code::TooLarge);
  EXPECT_EQ(read_text_files(dir_, ".toml", {.file_bytes = 3}).error().code, Code::TooLarge);
  std::filesystem::create_symlink("nowhere", dir_ + "/gone.toml");
  EXPECT_FALSE(read_text_files(dir_, ".toml"));
  EXPECT_EQ(read_text_files(dir_ + "/nothing", ".toml").error().code, Code::NotFound);
}

}  // namespace
}  // namespace osb::sys
