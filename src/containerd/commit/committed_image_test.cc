#include "containerd/commit/committed_image.h"

#include <gmock/gmock.h>

#include "api/json.h"

namespace osb::containerd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const image::Digest kOne = image::Digest::of("one"), kTwo = image::Digest::of("two"),
                    kThree = image::Digest::of("three");

BaseImage base(const std::string& history, const char* type = "application/vnd.docker.image.rootfs.diff.tar.gzip") {
  return {"base",
          R"({"os":"linux","architecture":"amd64","config":{"Env":["A=b"]},"rootfs":{"type":"layers","diff_ids":[")" +
              kOne.to_string() + R"("]})" + history + "}",
          {{type, kTwo, 5}}};
}

const NewLayer kLayer{{"application/vnd.oci.image.layer.v1.tar+gzip", kThree, 9}, image::Digest::of("plain")};

// As in the description of OCI's images: the chain of one layer is the layer.
TEST(CommittedImage, AChainNamesItsLayersInTheirOrder) {
  const std::vector one{kOne}, two{kOne, kTwo}, other{kTwo, kOne};
  EXPECT_EQ(chain_id({}), "");
  EXPECT_EQ(chain_id(one), kOne.to_string());
  EXPECT_EQ(chain_id(two), image::Digest::of(kOne.to_string() + " " + kTwo.to_string()).to_string());
  EXPECT_NE(chain_id(two), chain_id(other));
}

TEST(CommittedImage, TheLayerIsOnTopAndTheSettingsStay) {
  const auto made = commit_onto(base(R"(,"history":[{"created_by":"x"}])"), kLayer, "2026-01-02T03:04:05Z", "why");
  ASSERT_TRUE(made) << made.error().message;
  const auto config = image::decode_image_config(made->config);
  ASSERT_TRUE(config);
  EXPECT_THAT(config->diff_ids, ElementsAre(kOne, kLayer.diff_id));
  EXPECT_THAT(config->env, ElementsAre("A=b"));
  const auto text = api::parse_json(made->config);
  EXPECT_EQ(text->at("created").as_string(), "2026-01-02T03:04:05Z");
  EXPECT_EQ(text->at("history").as_array().size(), 2u);
  EXPECT_EQ(made->target.digest, image::Digest::of(made->manifest_text));
  const auto manifest = image::decode_manifest(made->manifest_text);
  ASSERT_TRUE(manifest) << manifest.error().message;
  const auto& layers = std::get<image::Manifest>(*manifest).layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].media_type, "application/vnd.oci.image.layer.v1.tar+gzip") << "Docker's types become OCI's";
  EXPECT_EQ(layers[1], kLayer.descriptor);
  EXPECT_THAT(made->references, ::testing::SizeIs(3)) << "containerd keeps configuration and layers with the manifest";
}

TEST(CommittedImage, WithoutAHistoryNoneIsInvented) {
  const auto made = commit_onto(base(""), kLayer, "2026-01-02T03:04:05Z", "");
  ASSERT_TRUE(made);
  EXPECT_FALSE(api::parse_json(made->config)->as_object().contains("history"));
}

TEST(CommittedImage, WhatCannotBeSavedIsNamed) {
  const auto strange = commit_onto(base("", "application/vnd.oci.image.layer.v1.tar+encrypted"), kLayer, "", "");
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().message, HasSubstr("+encrypted"));
  for (const char* config : {"", "[]", "{}", R"({"rootfs":7})", R"({"rootfs":{"diff_ids":{}}})"}) {
    EXPECT_FALSE(commit_onto({"base", config, {}}, kLayer, "", "")) << config;
  }
  BaseImage tall = base("");
  tall.layers.resize(image::kMaxLayers, tall.layers[0]);
  EXPECT_EQ(commit_onto(tall, kLayer, "", "").error().code, Code::Unsupported);
}

TEST(CommittedImage, AMountOfOverlayfsNoLongerWrites) {
  const Mount overlay{
      "overlay", "overlay", "", {"index=off", "workdir=/9/work", "upperdir=/9/fs", "lowerdir=/2/fs:/1/fs"}};
  const Mount bind{"bind", "/9/fs", "", {"rw", "rbind"}}, read{"bind", "/1/fs", "", {"ro", "rbind"}};
  const auto changed = only_reading({overlay, bind, read});
  EXPECT_THAT(changed[0].options, ElementsAre("index=off", "lowerdir=/9/fs:/2/fs:/1/fs"));
  EXPECT_THAT(changed[1].options, ElementsAre("rbind", "ro"));
  EXPECT_EQ(changed[2], read);
}

}  // namespace
}  // namespace osb::containerd
