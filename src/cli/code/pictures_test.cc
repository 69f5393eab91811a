#include "cli/code/pictures.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "base/base64.h"
#include "support/temp_dir.h"

namespace osb::cli {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Pictures, AreSavedInOrderAndNeverOverAnOlderFile) {
  const osb::testing::TempDir dir;
  const std::filesystem::path where = dir / "new";
  Pictures pictures(where.string());
  EXPECT_EQ(pictures.save({{"text/plain", "4"}}).value(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(where)) << "made when it is needed";
  const auto first = pictures.save({{"image/png", encode_base64("\x89PNG")}, {"text/plain", "<Figure>"}}).value();
  ASSERT_EQ(first, where / "picture-1.png");
  EXPECT_EQ(content(*first), "\x89PNG");
  EXPECT_EQ(pictures.save({{"image/svg+xml", "<svg/>"}}).value(), where / "picture-2.svg");

  Pictures later(where.string());
  EXPECT_EQ(later.save({{"image/png", encode_base64("new")}}).value(), where / "picture-2.png");
  EXPECT_EQ(content(*first), "\x89PNG");
  EXPECT_EQ(later.saved().size(), 1u);
}

TEST(Pictures, TextThatIsNoBase64IsNoPicture) {
  const osb::testing::TempDir dir;
  Pictures pictures(dir.path().string());
  EXPECT_EQ(pictures.save({{"image/png", "not base64!"}}).value(), std::nullopt);
}

}  // namespace
}  // namespace osb::cli
