#include "archive/tar_reader.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace osb::archive {
namespace {

struct Collector : TarSink {
  struct Item {
    TarEntry entry;
    std::string content;
    bool ended = false;
  };
  Result<void> begin(const TarEntry& entry) override {
    items.push_back({entry, std::string(entry.size, '\0')});
    return {};
  }
  Result<void> data(std::uint64_t offset, std::string_view bytes) override {
    EXPECT_LE(offset + bytes.size(), items.back().content.size());
    items.back().content.replace(offset, bytes.size(), bytes);
    return {};
  }
  Result<void> end() override {
    items.back().ended = true;
    return {};
  }
  std::vector<Item> items;
};

std::string archive_of(const TarEntry& entry, std::string_view stored) {
  std::string out;
  append_tar_header(out, entry);
  out += stored;
  out.append(tar_padding(stored.size()), '\0');
  return out;
}

Result<std::vector<Collector::Item>> read(std::string_view bytes, std::size_t piece = SIZE_MAX) {
  Collector collector;
  TarReader reader(collector);
  while (!bytes.empty()) {
    if (auto ok = reader.feed(bytes.substr(0, piece)); !ok) return Failure(ok.error());
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (auto ok = reader.finish(); !ok) return Failure(ok.error());
  return collector.items;
}

TEST(Tar, KeepsEveryFieldOfAnySize) {
  TarEntry entry;
  entry.type = TarEntry::Type::File;
  entry.path = "dir/" + std::string(300, 'n') + "\xff";
  entry.mode = 06755;
  entry.uid = 3'000'000;
  entry.gid = 4'000'000;
  entry.owner = std::string(40, 'o');
  entry.group = "staff";
  entry.mtime = {.tv_sec = 1'700'000'000, .tv_nsec = 123'456'789};
  entry.size = 5;
  for (const std::size_t piece : {SIZE_MAX, std::size_t{1}, std::size_t{513}}) {
    const auto items = read(archive_of(entry, "hello") + std::string(kTarEndBytes, '\0'), piece);
    ASSERT_TRUE(items) << items.error().message;
    ASSERT_EQ(items->size(), 1u);
    const TarEntry& got = items->front().entry;
    EXPECT_EQ(got.path, entry.path);
    EXPECT_EQ(got.mode, entry.mode);
    EXPECT_EQ(got.uid, entry.uid);
    EXPECT_EQ(got.gid, entry.gid);
    EXPECT_EQ(got.owner, entry.owner);
    EXPECT_EQ(got.group, entry.group);
    EXPECT_EQ(got.mtime.tv_sec, entry.mtime.tv_sec);
    EXPECT_EQ(got.mtime.tv_nsec, entry.mtime.tv_nsec);
    EXPECT_EQ(items->front().content, "hello");
    EXPECT_TRUE(items->front().ended);
  }
}

TEST(Tar, TimesBefore1970KeepTheirFraction) {
  TarEntry entry;
  entry.path = "old";
  for (const timespec time : {timespec{-1, 750'000'000}, timespec{-100, 0}, timespec{-86'400, 1}, timespec{0, 5}}) {
    entry.mtime = time;
    const auto items = read(archive_of(entry, ""));
    ASSERT_TRUE(items) << items.error().message;
    EXPECT_EQ(items->front().entry.mtime.tv_sec, time.tv_sec);
    EXPECT_EQ(items->front().entry.mtime.tv_nsec, time.tv_nsec);
  }
}

TEST(Tar, LongLinksAndDevicesComeThrough) {
  TarEntry link;
  link.type = TarEntry::Type::Symlink;
  link.path = "l";
  link.link = std::string(2000, 't');
  TarEntry device;
  device.type = TarEntry::Type::CharDevice;
  device.path = "d";
  device.major = 1;
  device.minor = 3;
  const auto items = read(archive_of(link, "") + archive_of(device, ""));
  ASSERT_TRUE(items) << items.error().message;
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ((*items)[0].entry.link, link.link);
  EXPECT_EQ((*items)[1].entry.major, 1u);
  EXPECT_EQ((*items)[1].entry.minor, 3u);
}

TEST(Tar, SparseMapsMayHaveAnyLength) {
  for (const std::size_t count : {0u, 1u, 40u, 41u, 42u, 1000u}) {
    TarEntry entry;
    entry.path = "sparse";
    entry.sparse = true;
    entry.size = 10 + count * 100;
    std::string stored, want(entry.size, '\0');
    for (std::size_t i = 0; i < count; ++i) {
      const std::string data = fmt::format("{:07}", i);
      entry.segments.push_back({i * 100 + 3, data.size()});
      stored += data;
      want.replace(i * 100 + 3, data.size(), data);
    }
    for (const std::size_t piece : {SIZE_MAX, std::size_t{1}, std::size_t{511}}) {
      std::string bytes;
      append_tar_header(bytes, entry);
      bytes += stored;
      bytes.resize(bytes.size() + tar_padding(bytes.size()));
      TarEntry after;
      after.path = "after";
      bytes += archive_of(after, "");
      const auto items = read(bytes, piece);
      ASSERT_TRUE(items) << items.error().message << " " << count;
      ASSERT_EQ(items->size(), 2u);
      EXPECT_EQ(items->front().entry.path, "sparse");
      EXPECT_EQ(items->front().content, want) << count;
    }
  }
}

TEST(Tar, RefusesDamage) {
  TarEntry entry;
  entry.path = "file";
  entry.size = 600;
  const std::string good = archive_of(entry, std::string(600, 'x')) + std::string(kTarEndBytes, '\0');
  ASSERT_TRUE(read(good));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("hello"));
  EXPECT_FALSE(read(std::string(512, 'x')));
  EXPECT_FALSE(read(std::string_view(good).substr(0, 700))) << "cut in the contents";
  EXPECT_FALSE(read(std::string_view(good).substr(0, 100))) << "cut in a header";
  EXPECT_TRUE(read(std::string_view(good).substr(0, 512 + 1024))) << "only the end marker is missing";
  std::string flipped = good;
  flipped[5] ^= 1;
  EXPECT_FALSE(read(flipped));
  EXPECT_FALSE(read("\x1f\x8b" + std::string(1000, 'z'))) << "compressed";
}

TEST(Tar, RefusesBrokenRecords) {
  const auto with_records = [](std::string records) {
    TarEntry header;
    header.path = "x";
    header.size = records.size();
    std::string out;
    append_tar_header(out, header);
    out[156] = 'x';
    // The type is part of the checksum.
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(out[i]);
    out.replace(148, 6, fmt::format("{:06o}", sum));
    out += records;
    out.append(tar_padding(records.size()), '\0');
    TarEntry file;
    file.path = "f";
    return out + archive_of(file, "");
  };
  EXPECT_TRUE(read(with_records("9 path=a\n")));
  for (const char* records : {"path=a\n", "9 path=ab\n", "99 path=a\n", "0 path=a\n", "9 pathxa\n", "12 size=-1\n",
                              "10 size=x\n", "31 size=99999999999999999999\n", "12 mtime=x\n",
                              "22 GNU.sparse.major=1\n", "22 GNU.sparse.major=2\n", "18 GNU.sparse.map=\n"}) {
    EXPECT_FALSE(read(with_records(records))) << records;
  }
  EXPECT_FALSE(read(with_records(std::string("11 path=a\0b\n", 12)))) << "NUL";
}

TEST(Tar, AttributesComeThrough) {
  TarEntry entry;
  entry.path = "ping";
  entry.attributes = {{"security.capability", std::string("\x01\0\n=\xff", 5)}, {"user.note", "hi"}};
  const auto items = read(archive_of(entry, ""));
  ASSERT_TRUE(items) << items.error().message;
  EXPECT_EQ(items->front().entry.attributes, entry.attributes);
}

TEST(Tar, NumbersInBase256MayBeNegativeOnlyAsTimes) {
  TarEntry entry;
  entry.path = "old";
  const auto with_field = [&](std::size_t at, std::string_view bytes) {
    std::string out = archive_of(entry, "");
    out.replace(at, bytes.size(), bytes);
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(out[i]);
    return out.replace(148, 6, fmt::format("{:06o}", sum));
  };
  const std::string minus_two = std::string(11, '\xff') + '\xfe';
  const auto items = read(with_field(136, minus_two));
  ASSERT_TRUE(items) << items.error().message;
  EXPECT_EQ(items->front().entry.mtime.tv_sec, -2);
  EXPECT_FALSE(read(with_field(124, minus_two))) << "a size";
  EXPECT_FALSE(read(with_field(124, '\x80' + std::string(11, '\xff')))) << "a size that no file has";
}

}  // namespace
}  // namespace osb::archive
