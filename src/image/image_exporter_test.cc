#include "image/image_exporter.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/archive_fixture.h"
#include "image/image_importer.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

using namespace image::testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ImageExporter : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners";
    auto store = LayerStore::open(dir_ / "store");
    ASSERT_TRUE(store);
    store_ = std::move(*store);
    const auto made = import_archive(*store_, from_memory(docker_archive("demo:1", {base_, top_}).bytes()), {});
    ASSERT_TRUE(made) << made.error().message;
    record_ = made->front().record;
    for (const auto& lease : made->front().layers) add_layer(lease.root());
    image_ = {{*Reference::parse("127.0.0.1:5000/demo:2"), *Reference::parse("again")}, record_.config, roots()};
  }

  void add_layer(const fs::path& root) {
    auto fd = sys::open_at(AT_FDCWD, root.string(), O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(fd);
    open_.push_back(std::move(*fd));
  }
  std::vector<int> roots() const {
    std::vector<int> out;
    for (const UniqueFd& fd : open_) out.push_back(fd.get());
    return out;
  }
  Result<ExportedImage> save(std::string& archive) {
    archive.clear();
    return export_image(image_, [&](std::string_view bytes) -> Result<void> {
      archive += bytes;
      return {};
    });
  }

  const std::string base_ = Tar()
                                .directory("etc")
                                .file("etc/base", "base")
                                .link("etc/same", "etc/base")
                                .add({.name = "etc/owned", .uid = 5, .gid = 6, .pax = {{"SCHILY.xattr.user.a", "b"}}})
                                .bytes();
  const std::string top_ = Tar().file("etc/.wh.base", "").file("opt/.wh..wh..opq", "").file("opt/new", "n").bytes();
  osb::testing::TempDir dir_;
  std::unique_ptr<LayerStore> store_;
  ImageRecord record_;
  std::vector<UniqueFd> open_;
  ExportImage image_;
};

TEST_F(ImageExporter, AnExportedImageComesBackTheSame) {
  std::string archive;
  const auto made = save(archive);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->bytes, archive.size());
  auto other = LayerStore::open(dir_ / "other");
  ASSERT_TRUE(other);
  const auto back = import_archive(**other, from_memory(archive), {});
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ((*back)[0].record.name, "127.0.0.1:5000/demo:2");
  EXPECT_EQ((*back)[1].record.name, "docker.io/library/again:latest");
  EXPECT_EQ((*back)[0].record.diff_ids, made->diff_ids);
  EXPECT_EQ(decode_image_config((*back)[0].record.config)->env.at(0), "A=b");
  // The trees are equal if they give the same bytes once more.
  for (std::size_t i = 0; i < 2; ++i) {
    const auto root = sys::open_at(AT_FDCWD, (*back)[0].layers[i].root().string(), O_RDONLY | O_DIRECTORY);
    const auto again = write_layer(root->get(), TreeKind::Overlay, [](auto) { return Result<void>(); });
    ASSERT_TRUE(again);
    EXPECT_EQ(again->diff_id, made->diff_ids[i]);
  }
  std::string twice;
  ASSERT_TRUE(save(twice));
  EXPECT_EQ(Digest::of(twice), Digest::of(archive));
}

TEST_F(ImageExporter, TheOciSideOfTheArchiveIsCompleteByItself) {
  std::string archive;
  ASSERT_TRUE(save(archive));
  std::ofstream(dir_ / "a.tar", std::ios::binary) << archive;
  const std::string strip = fmt::format(
      "cd {} && mkdir x && tar -xf a.tar -C x && rm x/manifest.json && "
      "tar -cf b.tar -C x .",
      dir_.path().string());
  ASSERT_EQ(std::system(strip.c_str()), 0);
  auto other = LayerStore::open(dir_ / "other");
  ASSERT_TRUE(other);
  const auto file = sys::open_at(AT_FDCWD, (dir_ / "b.tar").string(), O_RDONLY);
  const auto back = import_archive(**other, read_descriptor(file->get()), {});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->size(), 2u);
}

TEST_F(ImageExporter, AnUpperDirectoryGoesOnTop) {
  fs::create_directories(dir_ / "upper/etc");
  std::ofstream(dir_ / "upper/etc/added") << "added";
  add_layer(dir_ / "upper");
  image_.layers = roots();
  image_.names.clear();
  image_.config.replace(image_.config.find("\"config\""), 0,
                        R"("history":[{"created_by":"x"},{"empty_layer":true},{}],)");
  std::string archive;
  const auto made = save(archive);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->diff_ids.size(), 3u);
  EXPECT_THAT(made->config, HasSubstr("\"created_by\":\"opensandbox\""));
  auto other = LayerStore::open(dir_ / "other");
  ImportOptions named;
  named.name = *Reference::parse("top");
  const auto back = import_archive(**other, from_memory(archive), named);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(fs::exists(back->front().layers.at(2).root() / "etc/added"));
}

TEST_F(ImageExporter, ATreeThatChangesBetweenThePassesCutsTheArchive) {
  fs::create_directories(dir_ / "upper");
  add_layer(dir_ / "upper");
  image_.layers = roots();
  bool first = true;
  const auto got = export_image(image_, [&](std::string_view) -> Result<void> {
    if (std::exchange(first, false)) std::ofstream(dir_ / "upper/late") << "late";
    return {};
  });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::Conflict);
}

TEST_F(ImageExporter, ASinkThatFailsEndsIt) {
  const auto got = export_image(image_, [&](std::string_view) { return fail(Code::Unavailable, "gone"); });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "gone");
}

}  // namespace
}  // namespace osb::image
