#include "sandboxd/sandbox/sandbox_record.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

SandboxRecord sample() {
  SandboxRecord record;
  record.spec.id = record.status.id = "a";
  record.spec.image = "debian";
  record.spec.login = api::native::RegistryLogin{"me", "hunter2"};
  record.status.execd_token = "t";
  record.slot = 7;
  record.process = kernel::ProcessIdentity{"boot", 12, 34};
  record.layers = {image::Digest::of("x")};
  record.snapshots = {"s"};
  record.volumes_to_delete = {"v"};
  record.removing = true;
  return record;
}

TEST(SandboxRecord, IsReadBackAsItWasWritten) {
  const testing::TempDir dir;
  ASSERT_TRUE(save_record(dir.path().string(), sample()));
  const auto again = load_record(dir.path().string());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->slot, 7u);
  EXPECT_EQ(again->process, sample().process);
  EXPECT_EQ(again->layers, sample().layers);
  EXPECT_EQ(again->snapshots, sample().snapshots);
  EXPECT_EQ(again->volumes_to_delete, sample().volumes_to_delete);
  EXPECT_EQ(again->status.execd_token, "t");
  EXPECT_TRUE(again->removing);
}

TEST(SandboxRecord, HoldsNoPasswordAndIsForRootOnly) {
  const testing::TempDir dir;
  ASSERT_TRUE(save_record(dir.path().string(), sample()));
  std::ifstream file(dir.path() / "record.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.find("hunter2"), std::string::npos);
  EXPECT_EQ(std::filesystem::status(dir.path() / "record.json").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(SandboxRecord, SaysWhatIsWrongWithADamagedOne) {
  const testing::TempDir dir;
  EXPECT_EQ(load_record(dir.path().string()).error().code, Code::NotFound);
  std::ofstream(dir.path() / "record.json") << R"({"spec":{"id":"a","image":"x"},"status":{"id":7}})";
  const auto broken = load_record(dir.path().string());
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::InvalidRequest);
  EXPECT_NE(broken.error().message.find("record.json"), std::string::npos);
}

}  // namespace
}  // namespace osb::sandboxd
