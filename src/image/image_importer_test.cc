#include "image/image_importer.h"

#include <fstream>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/archive_fixture.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

using namespace image::testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kBase = Tar().directory("etc").file("etc/base", "base").bytes();
const std::string kTop = Tar().file("etc/top", "top").bytes();

class ImageImporter : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners";
    auto store = LayerStore::open(dir_ / "store");
    ASSERT_TRUE(store);
    store_ = std::move(*store);
  }

  Result<std::vector<ImportedImage>> import(const std::string& bytes, ImportOptions options = {},
                                            std::size_t piece = 1 << 20) {
    return import_archive(*store_, from_memory(bytes, piece), options);
  }
  // Refused with this text, and nothing left of it.
  void refused(const std::string& bytes, const std::string& why, Code code = Code::InvalidRequest,
               ImportOptions options = {}) {
    const auto got = import(bytes, std::move(options));
    ASSERT_FALSE(got) << why;
    EXPECT_EQ(got.error().code, code) << got.error().message;
    EXPECT_THAT(got.error().message, HasSubstr(why));
    EXPECT_TRUE(store_->images().empty()) << why;
    EXPECT_TRUE(fs::is_empty(dir_ / "store/tmp")) << why;
  }
  void expect_image(const Result<std::vector<ImportedImage>>& got, const std::string& name) {
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(got->size(), 1u);
    EXPECT_EQ(got->front().record.name, name);
    const auto stored = store_->image(*Reference::parse(name));
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(stored->diff_ids, (std::vector{Digest::of(kBase), Digest::of(kTop)}));
    EXPECT_TRUE(stored->local);
    EXPECT_EQ(decode_image_config(stored->config)->cmd.at(0), "sh");
    ASSERT_EQ(got->front().layers.size(), 2u);
    std::ifstream in(got->front().layers[1].root() / "etc/top");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "top");
    EXPECT_TRUE(fs::is_empty(dir_ / "store/tmp"));
  }

  osb::testing::TempDir dir_;
  std::unique_ptr<LayerStore> store_;
};

TEST_F(ImageImporter, AnOldDockerArchiveBecomesAnImageUnderItsTag) {
  expect_image(import(docker_archive("demo:1", {kBase, kTop}).bytes()), "docker.io/library/demo:1");
}

TEST_F(ImageImporter, ACallersNameWins) {
  ImportOptions options;
  options.name = *Reference::parse("mine/own:2");
  expect_image(import(docker_archive("demo:1", {kBase, kTop}).bytes(), options), "docker.io/mine/own:2");
  EXPECT_EQ(store_->images().size(), 1u);
}

TEST_F(ImageImporter, AnOciArchiveBecomesAnImageWithCompressedLayers) {
  const Tar archive = oci_archive("registry.example/demo:1", {kBase, kTop}, {gzip(kBase), zstd(kTop)});
  expect_image(import(archive.bytes(), {}, 1000), "registry.example/demo:1");
}

TEST_F(ImageImporter, WholeArchivesMayBeCompressed) {
  expect_image(import(gzip(docker_archive("demo:1", {kBase, kTop}).bytes())), "docker.io/library/demo:1");
  expect_image(import(zstd(oci_archive("demo:2", {kBase, kTop}, {kBase, kTop}).bytes())), "docker.io/library/demo:2");
}

TEST_F(ImageImporter, ADockerArchiveOfTodayHasItsBlobsWhereOciPutsThem) {
  const std::string config = config_for({kBase, kTop});
  Tar archive = oci_archive("demo:1", {kBase, kTop}, {kBase, kTop});
  archive.file("manifest.json", fmt::format(R"([{{"Config":"{}","RepoTags":["demo:1"],"Layers":["{}","{}"]}}])",
                                            blob_path(config), blob_path(kBase), blob_path(kTop)));
  expect_image(import(archive.bytes()), "docker.io/library/demo:1");
}

TEST_F(ImageImporter, LayersThatArchivesShareAreLinks) {
  const std::string config = config_for({kBase, kTop});
  Tar archive;
  archive.file("first/layer.tar", kBase).symlink("second/layer.tar", "../first/layer.tar");
  archive.file("t", kTop).link("third/layer.tar", "t").file("c.json", config);
  archive.file("manifest.json",
               R"([{"Config":"c.json","RepoTags":["a:1"],"Layers":["second/layer.tar","./third//layer.tar"]}])");
  expect_image(import(archive.bytes()), "docker.io/library/a:1");
}

TEST_F(ImageImporter, SeveralImagesAndSeveralTagsComeOutOfOneArchive) {
  const std::string one = config_for({kBase}), two = config_for({kBase, kTop});
  Tar archive;
  archive.file("b", kBase).file("t", kTop).file("1", one).file("2", two);
  archive.file("manifest.json", R"([{"Config":"1","RepoTags":["a:1","a:2"],"Layers":["b"]},)"
                                R"({"Config":"2","RepoTags":["b"],"Layers":["b","t"]}])");
  ImportOptions named;
  named.name = *Reference::parse("x");
  refused(archive.bytes(), "holds 2 images", Code::InvalidRequest, named);
  const auto got = import(archive.bytes());
  ASSERT_TRUE(got) << got.error().message;
  std::vector<std::string> names;
  for (const ImageRecord& image : store_->images()) names.push_back(image.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"docker.io/library/a:1", "docker.io/library/a:2", "docker.io/library/b:latest"}));
  EXPECT_EQ(store_->usage().layers, 2u);
}

TEST_F(ImageImporter, AnIndexOfSeveralPlatformsLeadsToOurs) {
  const std::string own = host_platform().architecture;
  const std::string config = config_for({kBase, kTop}), manifest = manifest_for(config, {kBase, kTop});
  const std::string foreign = manifest_for(config_for({kBase}, "s390x"), {kBase});
  const std::string nested = index_of({descriptor(foreign, kOciManifestType, platform("s390x")),
                                       descriptor(manifest, kOciManifestType, platform(own))});
  Tar archive;  // the foreign manifest's blobs are left out, as `docker save` does it
  for (const std::string& blob : {kBase, kTop, config, manifest, nested}) archive.file(blob_path(blob), blob);
  archive.file("index.json", index_of({descriptor(nested, kOciIndexType, ref_name("multi:1"))}));
  expect_image(import(archive.bytes()), "docker.io/library/multi:1");
}

TEST_F(ImageImporter, AnImageOfAnotherPlatformIsNotFound) {
  const std::string config = config_for({kBase}, "s390x");
  Tar archive;
  archive.file("b", kBase).file("c", config);
  archive.file("manifest.json", R"([{"Config":"c","RepoTags":["a:1"],"Layers":["b"]}])");
  refused(archive.bytes(), "s390x", Code::NotFound);
}

TEST_F(ImageImporter, AnImageWithoutANameNeedsOne) {
  refused(docker_archive("", {kBase}).bytes(), "has no name");
  refused(oci_archive("", {kBase}, {kBase}).bytes(), "has no name");
  refused(oci_archive("latest", {kBase}, {kBase}).bytes(), "has no name");
  ImportOptions named;
  named.name = *Reference::parse("x");
  EXPECT_TRUE(import(oci_archive("", {kBase}, {kBase}).bytes(), named));
}

TEST_F(ImageImporter, DamagedAndHostileArchivesAreRefused) {
  const std::string config = config_for({kBase});
  const std::string manifest = R"([{"Config":"c","RepoTags":["a:1"],"Layers":["b"]}])";
  const auto with = [&](const std::function<void(Tar&)>& add) {
    Tar out;
    add(out);
    return out.bytes();
  };
  refused("", "");
  refused(Tar().file("x", "y").bytes(), "neither manifest.json nor index.json");
  refused(std::string(2000, 'x'), "damaged tar");
  refused(with([&](Tar& t) { t.file("manifest.json", manifest).file("c", config); }), "'b': is missing");
  refused(with([&](Tar& t) { t.file("manifest.json", manifest).file("b", kBase); }), "'c': is missing");
  refused(with([&](Tar& t) { t.file("manifest.json", manifest).file("c", config).file("b", kTop); }), "diff id");
  refused(with([&](Tar& t) { t.file("manifest.json", manifest).file("c", "{}").file("b", kBase); }), "rootfs");
  refused(with([&](Tar& t) { t.file("manifest.json", "{}"); }), "manifest.json");
  refused(with([&](Tar& t) { t.file("manifest.json", "[]"); }), "no image");
  refused(with([&](Tar& t) { t.file("../manifest.json", manifest); }), "leads out");
  refused(with([&](Tar& t) { t.symlink("b", "../../etc/passwd"); }), "leads out");
  refused(with([&](Tar& t) { t.link("b", "../x"); }), "leads out");
  refused(with([&](Tar& t) { t.add({.name = "dev", .type = '3', .major = 1, .minor = 3}); }), "kind of file");
  refused(with([&](Tar& t) { t.file("manifest.json", manifest).symlink("c", "d").symlink("d", "c"); }), "links");
  // An absolute link is one inside the archive, never the host's file.
  refused(with([&](Tar& t) { t.file("manifest.json", manifest).symlink("c", "/etc/hostname"); }), "'c': is missing");
  refused(with([&](Tar& t) {
            t.file("manifest.json", R"([{"Config":"../../etc/passwd","RepoTags":["a:1"],"Layers":["b"]}])");
          }),
          "leads out");
  const std::string named = Digest::of("other").hex() + ".json";
  refused(with([&](Tar& t) {
            t.file(named, config).file("b", kBase);
            t.file("manifest.json", R"([{"Config":")" + named + R"(","RepoTags":["a:1"],"Layers":["b"]}])");
          }),
          "its content has the digest");
  std::string cut = docker_archive("a:1", {kBase}).bytes();
  refused(cut.substr(0, 1800), "damaged tar");
  cut = gzip(docker_archive("a:1", {kBase}).bytes());
  refused(cut.substr(0, cut.size() / 2), "ends too early");
  ImportOptions small;
  small.max_bytes = 1024;
  refused(docker_archive("a:1", {kBase}).bytes(), "larger than 1024 bytes", Code::TooLarge, small);
}

TEST_F(ImageImporter, OciBlobsAreComparedWithTheirDescriptors) {
  const std::string config = config_for({kBase}), manifest = manifest_for(config, {kBase});
  const std::string index = index_of({descriptor(manifest, kOciManifestType, ref_name("a:1"))});
  const std::map<std::string, std::string> all{
      {blob_path(kBase), kBase}, {blob_path(config), config}, {blob_path(manifest), manifest}, {"index.json", index}};
  const auto build = [&](std::map<std::string, std::string> changes) {
    Tar out;
    changes.insert(all.begin(), all.end());
    for (const auto& [name, text] : changes) {
      if (!text.empty()) out.file(name, text);
    }
    return out.bytes();
  };
  refused(build({{blob_path(kBase), ""}}), "layer " + Digest::of(kBase).to_string() + " is missing");
  refused(build({{blob_path(config), ""}}), "configuration " + Digest::of(config).to_string() + " is missing");
  refused(build({{blob_path(manifest), ""}}), "manifest " + Digest::of(manifest).to_string() + " is missing");
  refused(build({{blob_path(kBase), kTop}}), "bytes, expected");
  std::string other = kBase;
  other[1025] = 'X';  // in a file's data
  refused(build({{blob_path(kBase), other}}), "digest");
  std::string spoiled = config;
  spoiled[2] = 'X';
  refused(build({{blob_path(config), spoiled}}), "its content has the digest");
  EXPECT_EQ(store_->usage().layers, 0u);
  EXPECT_TRUE(import(build({})));
}

TEST_F(ImageImporter, TheTarOfARootDirectoryBecomesAnImageUnderTheGivenName) {
  Tar root;
  root.add({.name = "./", .type = '5', .mode = 0755});
  root.file("./app", "says nothing");
  root.file("./etc/os-release", "NAME=own\n").add({.name = "./dev/null", .type = '3', .major = 1, .minor = 3});
  const std::string tar = root.bytes();
  refused(Tar().file("etc/os-release", "NAME=own\n").bytes(), "needs a name");
  ImportOptions options;
  options.name = *Reference::parse("own:root");
  for (const std::string& bytes : {tar, gzip(tar)}) {
    const auto made = import(bytes, options);
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_EQ(made->size(), 1u);
    EXPECT_EQ(made->front().record.name, options.name->to_string());
    EXPECT_EQ(made->front().record.diff_ids, std::vector{Digest::of(tar)});
    EXPECT_TRUE(fs::exists(made->front().layers.front().root() / "etc/os-release"));
  }
}

TEST_F(ImageImporter, ARootDirectoryBecomesAnImageOfOneLayer) {
  fs::create_directories(dir_ / "root/etc");
  std::ofstream(dir_ / "root/etc/hello") << "hi";
  ASSERT_EQ(::chown((dir_ / "root/etc/hello").c_str(), 12, 34), 0);
  auto root = sys::open_at(AT_FDCWD, (dir_ / "root").string(), O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(root);
  const auto got = import_directory(*store_, std::move(*root), *Reference::parse("local/root"));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->record.name, "docker.io/local/root:latest");
  ASSERT_EQ(got->layers.size(), 1u);
  struct stat st{};
  ASSERT_EQ(::stat((got->layers[0].root() / "etc/hello").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 12u);
  EXPECT_EQ(st.st_gid, 34u);
  EXPECT_EQ(decode_image_config(got->record.config)->diff_ids, got->record.diff_ids);
  EXPECT_TRUE(store_->image(*Reference::parse("local/root")));
}

}  // namespace
}  // namespace osb::image
