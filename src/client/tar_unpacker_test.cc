#include "client/tar_unpacker.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "client/tar_packer.h"
#include "support/temp_dir.h"

namespace opensandbox {
namespace {

namespace fs = std::filesystem;

// One header as tar writes it; the contents follow.
std::string entry(const std::string& path, char type, const std::string& link, const std::string& content) {
  std::string block(512, '\0');
  block.replace(0, path.size(), path);
  block.replace(100, 7, "0000644");
  std::string size(11, '0');
  std::size_t n = content.size();
  for (std::size_t i = 11; i-- > 0; n /= 8) size[i] = static_cast<char>('0' + n % 8);
  block.replace(124, 11, size);
  block.replace(136, 11, "00000000000");
  block.replace(148, 8, "        ");
  block[156] = type;
  block.replace(157, link.size(), link);
  block.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof(text), "%06o", sum);
  block.replace(148, 7, std::string(text, 7));
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}

Result<void> unpack(const fs::path& into, const std::string& archive, std::size_t step = SIZE_MAX) {
  auto unpacker = TarUnpacker::open(into);
  if (!unpacker) return Failure(unpacker.error());
  for (std::size_t at = 0; at < archive.size(); at += step) {
    if (auto fed = unpacker->feed(std::string_view(archive).substr(at, step)); !fed) return fed;
    if (step == SIZE_MAX) break;
  }
  return unpacker->finish();
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string pack(const fs::path& directory) {
  auto packer = TarPacker::open(directory);
  EXPECT_TRUE(packer);
  std::string out;
  for (;;) {
    const auto piece = packer->next();
    EXPECT_TRUE(piece);
    if (!piece || piece->empty()) return out;
    out += *piece;
  }
}

class TarUnpackerTest : public testing::Test {
 protected:
  osb::testing::TempDir temp_;
  const fs::path root_ = fs::path(temp_.path()) / "root";
};

TEST_F(TarUnpackerTest, TakesPiecesOfAnySize) {
  const fs::path from = fs::path(temp_.path()) / "from";
  fs::create_directories(from / "a" / "b");
  std::ofstream(from / "a" / "b" / "file") << std::string(1500, 'x');
  std::ofstream(from / std::string(150, 'l')) << "long";
  fs::create_symlink(std::string(150, 't'), from / "link");
  const std::string archive = pack(from);
  for (const std::size_t step : {1, 7, 511, 512, 513}) {
    const fs::path to = root_ / std::to_string(step);
    ASSERT_TRUE(unpack(to, archive, step)) << step;
    EXPECT_EQ(text_of(to / "a" / "b" / "file"), std::string(1500, 'x'));
    EXPECT_EQ(text_of(to / std::string(150, 'l')), "long");
    EXPECT_EQ(fs::read_symlink(to / "link"), std::string(150, 't'));
  }
}

TEST_F(TarUnpackerTest, LetsNothingOut) {
  const fs::path outside = fs::path(temp_.path()) / "outside";
  fs::create_directories(outside);
  const std::string end(1024, '\0');
  EXPECT_FALSE(unpack(root_, entry("../evil", '0', "", "x") + end));
  EXPECT_FALSE(unpack(root_, entry("a/../../evil", '0', "", "x") + end));
  EXPECT_FALSE(unpack(root_, entry(outside.string() + "/evil", '0', "", "x") + end));
  EXPECT_FALSE(unpack(root_, entry("door", '2', outside.string(), "") + entry("door/evil", '0', "", "x") + end));
  EXPECT_FALSE(unpack(root_, entry("up", '2', "..", "") + entry("up/evil", '0', "", "x") + end));
  EXPECT_FALSE(unpack(root_, entry("door2", '2', outside.string(), "") + entry("door2", '5', "", "") + end));
  std::ofstream(outside / "secret") << "s";
  EXPECT_FALSE(unpack(root_, entry("stolen", '1', "../outside/secret", "") + end));
  EXPECT_FALSE(unpack(root_, entry("stolen", '1', (outside / "secret").string(), "") + end));
  EXPECT_TRUE(fs::exists(outside / "secret"));
  EXPECT_FALSE(fs::exists(outside / "evil"));
  EXPECT_FALSE(fs::exists(fs::path(temp_.path()) / "evil"));
  // A link is replaced, not followed.
  fs::create_symlink(outside / "secret", root_ / "file");
  ASSERT_TRUE(unpack(root_, entry("file", '0', "", "new") + end));
  EXPECT_EQ(text_of(outside / "secret"), "s");
  EXPECT_EQ(text_of(root_ / "file"), "new");
}

TEST_F(TarUnpackerTest, RefusesWhatIsBrokenAndLeavesNothingHalf) {
  const std::string good = entry("file", '0', "", std::string(2000, 'x')) + std::string(1024, '\0');
  EXPECT_FALSE(unpack(root_, ""));
  EXPECT_FALSE(unpack(root_, "this is no archive at all" + std::string(1000, '.')));
  EXPECT_FALSE(unpack(root_, good.substr(0, 1000)));
  EXPECT_TRUE(fs::is_empty(root_));
  std::string bad = good;
  bad[0] = 'g';
  EXPECT_FALSE(unpack(root_, bad));
  EXPECT_TRUE(unpack(root_, good));
  EXPECT_EQ(text_of(root_ / "file").size(), 2000u);
}

}  // namespace
}  // namespace opensandbox
