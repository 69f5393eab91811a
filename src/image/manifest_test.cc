#include "image/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::image {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string digest(char c) { return "sha256:" + std::string(64, c); }
std::string descriptor(char c, int size = 7) {
  return fmt::format(R"({{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"{}","size":{}}})",
                     digest(c), size);
}
std::string entry(char c, const std::string& platform) {
  return fmt::format(R"({{"digest":"{}","size":1,"platform":{}}})", digest(c), platform);
}

const std::string kManifest = fmt::format(R"({{"schemaVersion":2,"config":{},"layers":[{},{}]}})", descriptor('a'),
                                          descriptor('b'), descriptor('c', 9));

Error refused(std::string_view text, std::string_view type = "") {
  auto got = decode_manifest(text, type);
  EXPECT_FALSE(got) << text;
  return got ? Error() : got.error();
}

TEST(Manifest, LayersAndConfigAreRead) {
  for (const char* type : {"", "application/json", "application/vnd.oci.image.manifest.v1+json; charset=utf-8",
                           "application/vnd.docker.distribution.manifest.v2+json"}) {
    const auto got = decode_manifest(kManifest, type);
    ASSERT_TRUE(got) << got.error().message;
    const Manifest& manifest = std::get<Manifest>(*got);
    EXPECT_EQ(manifest.config.digest.to_string(), digest('a'));
    ASSERT_EQ(manifest.layers.size(), 2u);
    EXPECT_EQ(manifest.layers[1].digest.to_string(), digest('c'));
    EXPECT_EQ(manifest.layers[1].size, 9u);
    EXPECT_TRUE(is_layer_media_type(manifest.layers[1].media_type));
  }
}

TEST(Manifest, WhatIsWrongIsNamed) {
  EXPECT_EQ(refused("").code, Code::InvalidRequest);
  EXPECT_EQ(refused("[]").code, Code::InvalidRequest);
  EXPECT_EQ(refused("{}").code, Code::InvalidRequest);
  EXPECT_EQ(refused(R"({"schemaVersion":1,"fsLayers":[]})").code, Code::Unsupported);
  EXPECT_THAT(refused(R"({"config":{"digest":"sha256:zz","size":1},"layers":[]})").message,
              HasSubstr("/config/digest"));
  EXPECT_THAT(refused(fmt::format(R"({{"config":{},"layers":[{}]}})", descriptor('a'), descriptor('b', -1))).message,
              HasSubstr("/layers/0/size"));
  EXPECT_THAT(refused(fmt::format(R"({{"layers":[{}]}})", descriptor('b'))).message, HasSubstr("/config"));
  EXPECT_EQ(refused(kManifest, "application/vnd.cncf.helm+json").code, Code::Unsupported);
  EXPECT_EQ(refused(std::string(kMaxManifestBytes + 1, ' ')).code, Code::TooLarge);
  std::string many = fmt::format(R"({{"config":{},"layers":[{})", descriptor('a'), descriptor('b'));
  for (std::size_t i = 0; i < kMaxLayers; ++i) many += "," + descriptor('c');
  EXPECT_THAT(refused(many + "]}").message, HasSubstr("too many layers"));
}

TEST(Manifest, ADocumentThatCanBeReadTwoWaysIsRefused) {
  EXPECT_THAT(refused(fmt::format(R"({{"config":{},"layers":[],"manifests":[]}})", descriptor('a'))).message,
              HasSubstr("either"));
  EXPECT_THAT(refused(kManifest, "application/vnd.oci.image.index.v1+json").message, HasSubstr("media type"));
  EXPECT_THAT(refused(R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","manifests":[]})").message,
              HasSubstr("media type"));
}

Index index_of(const std::string& entries) {
  auto got = decode_manifest(R"({"schemaVersion":2,"manifests":[)" + entries + "]}");
  EXPECT_TRUE(got) << got.error().message;
  return std::get<Index>(*got);
}

std::string chosen(const Index& index, const char* platform) {
  auto wanted = parse_platform(platform);
  EXPECT_TRUE(wanted) << platform;
  auto got = choose_platform(index, *wanted);
  return got ? std::string(1, got->digest.hex()[0]) : got.error().message;
}

TEST(Platform, TheNearestLevelOfTheProcessorIsChosen) {
  const Index index = index_of(entry('0', R"({"os":"unknown","architecture":"unknown"})") + "," +
                               entry('1', R"({"os":"linux","architecture":"arm","variant":"v6"})") + "," +
                               entry('2', R"({"os":"linux","architecture":"amd64","variant":"v3"})") + "," +
                               entry('3', R"({"os":"linux","architecture":"amd64"})") + "," +
                               entry('4', R"({"os":"linux","architecture":"arm64","variant":"v8"})") + "," +
                               entry('5', R"({"os":"windows","architecture":"amd64"})") + "," +
                               entry('6', R"({"os":"linux","architecture":"amd64"})"));
  EXPECT_EQ(chosen(index, "linux/amd64"), "3");
  EXPECT_EQ(chosen(index, "x86_64"), "3");
  EXPECT_EQ(chosen(index, "linux/amd64/v2"), "3");
  EXPECT_EQ(chosen(index, "linux/amd64/v4"), "2");
  EXPECT_EQ(chosen(index, "aarch64"), "4");
  EXPECT_EQ(chosen(index, "linux/arm/v7"), "1");
  EXPECT_EQ(chosen(index, "linux/arm"), "1");
  EXPECT_EQ(chosen(index, "windows/amd64"), "5");
  EXPECT_THAT(chosen(index, "linux/arm/v5"), HasSubstr("no image for linux/arm/v5; there is: linux/arm/v6"));
  EXPECT_THAT(chosen(index, "linux/s390x"), HasSubstr("no image"));
  EXPECT_EQ(choose_platform(index_of(""), host_platform()).error().code, Code::NotFound);
  EXPECT_EQ(chosen(index_of(descriptor('7')), "linux/amd64"), "7");
  for (const char* bad : {"", "/", "linux/", "a/b/c/d", "Linux/x", "a b"}) EXPECT_FALSE(parse_platform(bad)) << bad;
}

TEST(ImageConfig, EverythingThatRunsAContainerIsRead) {
  const auto got = decode_image_config(R"({"os":"linux","architecture":"amd64","created":"x","history":[],
    "config":{"Env":["PATH=/bin","EMPTY="],"Entrypoint":["/e","1"],"Cmd":null,"User":"u:g","WorkingDir":"/w",
      "ExposedPorts":{"80/tcp":{},"53/udp":{}},"Volumes":{"/data":{}},"Labels":{"a":"b"},"StopSignal":"SIGINT",
      "Healthcheck":{"Test":["NONE"]}},
    "rootfs":{"type":"layers","diff_ids":[")" +
                                       digest('a') + R"(",")" + digest('b') + R"("]}})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->platform.to_string(), "linux/amd64");
  EXPECT_THAT(got->env, ElementsAre("PATH=/bin", "EMPTY="));
  EXPECT_THAT(got->entrypoint, ElementsAre("/e", "1"));
  EXPECT_THAT(got->cmd, ElementsAre());
  EXPECT_EQ(got->user, "u:g");
  EXPECT_EQ(got->working_dir, "/w");
  EXPECT_THAT(got->exposed_ports, ElementsAre("53/udp", "80/tcp"));
  EXPECT_THAT(got->volumes, ElementsAre("/data"));
  EXPECT_EQ(got->labels.at("a"), "b");
  EXPECT_EQ(got->stop_signal, "SIGINT");
  ASSERT_EQ(got->diff_ids.size(), 2u);
  EXPECT_EQ(got->diff_ids[1].to_string(), digest('b'));
}

TEST(ImageConfig, TextsThatTheKernelWouldMisreadAreRefused) {
  const auto why = [](const std::string& config) {
    auto got = decode_image_config(R"({"config":)" + config + R"(,"rootfs":{"type":"layers","diff_ids":[]}})");
    return got ? std::string("accepted") : got.error().message;
  };
  EXPECT_EQ(why("{}"), "accepted");
  EXPECT_EQ(why("null"), "accepted");
  EXPECT_THAT(why(R"({"Env":["=x"]})"), HasSubstr("/config/Env"));
  EXPECT_THAT(why(R"({"Env":["x"]})"), HasSubstr("/config/Env"));
  EXPECT_THAT(why(R"({"Cmd":["a\u0000b"]})"), HasSubstr("/config/Cmd"));
  EXPECT_THAT(why(R"({"Cmd":"sh"})"), HasSubstr("/config/Cmd"));
  EXPECT_THAT(why(R"({"User":"a\u0000b"})"), HasSubstr("/config/User"));
  EXPECT_THAT(why(R"({"WorkingDir":"w"})"), HasSubstr("/config/WorkingDir"));
  EXPECT_THAT(why(R"({"ExposedPorts":[80]})"), HasSubstr("/config/ExposedPorts"));
  EXPECT_FALSE(decode_image_config(R"({"config":{}})"));
  EXPECT_FALSE(decode_image_config(R"({"rootfs":{"type":"windows","diff_ids":[]}})"));
  EXPECT_FALSE(decode_image_config(R"({"rootfs":{"type":"layers","diff_ids":["sha256:0"]}})"));
}

TEST(Manifest, OnlyTarLayersCanBeUnpacked) {
  for (const char* good : {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+zstd",
                           "application/vnd.docker.image.rootfs.diff.tar.gzip"}) {
    EXPECT_TRUE(is_layer_media_type(good)) << good;
  }
  for (const char* bad : {"", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "application/wasm"}) {
    EXPECT_FALSE(is_layer_media_type(bad)) << bad;
  }
}

}  // namespace
}  // namespace osb::image
