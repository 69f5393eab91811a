#include "containerd/protobuf.h"

#include <vector>

#include <gmock/gmock.h>

#include "containerd/messages.h"

namespace osb::containerd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using namespace std::literals;

// The examples of the encoding's description.
TEST(Protobuf, FieldsAreWrittenAsItsDescriptionShows) {
  EXPECT_EQ(ProtoWriter().number(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(ProtoWriter().text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(ProtoWriter().message(3, ProtoWriter().number(1, 150)).bytes(), "\x1a\x03\x08\x96\x01");
  EXPECT_EQ(ProtoWriter().entries(7, {{"k", "v"}}).bytes(), "\x3a\x06\x0a\x01k\x12\x01v");
}

TEST(Protobuf, EmptyValuesAreAbsentButElementsAreNot) {
  EXPECT_EQ(ProtoWriter().number(1, 0).text(2, "").bytes(), "");
  EXPECT_EQ(ProtoWriter().item(1, "").bytes(), "\x0a\0"s);
}

TEST(Protobuf, FieldsOfOtherTypesArePassedOver) {
  const std::string bytes =
      "\x09"
      "12345678"  // 64 bits
      "\x15"
      "1234"  // 32 bits
      "\x18\x05"
      "\x22\x01"
      "x";
  std::vector<std::uint32_t> numbers;
  ProtoReader in(bytes);
  for (ProtoField field; in.next(field);) {
    EXPECT_FALSE(field.is_text(1) || field.is_text(2) || field.is_number(1) || field.is_number(2));
    if (field.is_number(3)) EXPECT_EQ(field.value, 5u);
    if (field.is_text(4)) EXPECT_EQ(field.bytes, "x");
    numbers.push_back(field.number);
  }
  EXPECT_TRUE(in.finish());
  EXPECT_THAT(numbers, ElementsAre(0u, 0u, 3u, 4u));
}

TEST(Protobuf, BytesThatAreNoMessageAreRefused) {
  struct {
    const char* why;
    std::string bytes;
  } rows[] = {
      {"a tag that does not end", "\xff"},
      {"a number of eleven bytes", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
      {"a text that is longer than the rest",
       "\x12\x05"
       "abc"},
      {"a text of almost 2^64 bytes", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
      {"the field 0",
       "\x02\x01"
       "a"},
      {"a group", "\x0b\x0c"},
      {"half of a fixed number",
       "\x09"
       "1234"},
  };
  for (const auto& row : rows) {
    ProtoReader in(row.bytes);
    for (ProtoField field; in.next(field);) {
    }
    EXPECT_FALSE(in.finish()) << row.why;
    EXPECT_FALSE(decode_containers(row.bytes)) << row.why;
  }
}

TEST(Messages, AContainerHasItsFields) {
  const std::string answer = ProtoWriter()
                                 .message(1, ProtoWriter()
                                                 .text(1, "id")
                                                 .entries(2, {{"a", "b"}})
                                                 .text(3, "image")
                                                 .message(4, ProtoWriter().text(1, "runc"))
                                                 .text(6, "overlayfs")
                                                 .text(7, "key")
                                                 .message(8, ProtoWriter().number(1, 17).number(2, 5)))
                                 .message(1, ProtoWriter())
                                 .bytes();
  const auto all = decode_containers(answer);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  const Container& first = all->front();
  EXPECT_EQ((std::vector{first.id, first.image, first.runtime, first.snapshotter, first.snapshot_key}),
            (std::vector<std::string>{"id", "image", "runc", "overlayfs", "key"}));
  EXPECT_EQ(first.created_at, (std::pair<std::int64_t, std::uint64_t>{17, 5}));
}

TEST(Messages, AMountIsReadAsItWasWritten) {
  const Mount mount{"overlay", "overlay", "", {"index=off", "", "lowerdir=/a:/b"}};
  const auto all = decode_mounts(ProtoWriter().message(1, mount.encode()).bytes());
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(mount));
}

TEST(Messages, AnImageWithAForeignDigestHidesNoOther) {
  const image::Descriptor target{"type", image::Digest::of("x"), 7};
  const ProtoWriter strange = ProtoWriter().text(1, "strange").message(3, ProtoWriter().text(2, "sha512:00"));
  const std::string answer = ProtoWriter().message(1, strange).message(1, ImageName{"good", target}.encode()).bytes();
  const auto all = decode_images(answer);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().name, "good");
  EXPECT_EQ(all->front().target, target);
  EXPECT_FALSE(decode_image(ProtoWriter().message(1, strange).bytes()));
}

TEST(Messages, AStateThatIsNotKnownIsUnknown) {
  const auto state = [](std::uint64_t value) {
    return decode_task(ProtoWriter().message(1, ProtoWriter().number(4, value)).bytes());
  };
  EXPECT_EQ(state(4), TaskStatus::Paused);
  EXPECT_EQ(state(99), TaskStatus::Unknown);
  EXPECT_EQ(state(0), TaskStatus::Unknown);
}

TEST(Messages, ABlobHasItsLabels) {
  const auto info =
      decode_blob(ProtoWriter().message(1, ProtoWriter().number(2, 9).entries(5, {{"a", ""}, {"b", "c"}})).bytes());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, 9u);
  EXPECT_THAT(info->labels, ElementsAre(Pair("a", ""), Pair("b", "c")));
}

}  // namespace
}  // namespace osb::containerd
