#include <filesystem>
#include <fstream>

#include "fixture.h"

namespace opensandbox {
namespace {

using SdkFiles = SandboxTest;

std::string some_bytes(std::size_t count) {
  std::string out(count, '\0');
  std::uint32_t x = 12345;
  for (char& c : out) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return out;
}

TEST_F(SdkFiles, ReadBackWhatWasWritten) {
  const auto files = sandbox().files();
  const std::string bytes = some_bytes(300'000);
  must(files.write("/tmp/a/b c/\xC3\xA4.bin", bytes, {.mode = 640}));
  EXPECT_EQ(must(files.read("/tmp/a/b c/\xC3\xA4.bin")), bytes);
  const auto info = must(files.info("/tmp/a/b c/\xC3\xA4.bin"));
  EXPECT_EQ(info.size, bytes.size());
  EXPECT_EQ(info.mode, 640);
  must(files.write("/tmp/empty", ""));
  EXPECT_EQ(must(files.read("/tmp/empty")), "");
}

TEST_F(SdkFiles, ReadParts) {
  const auto files = sandbox().files();
  must(files.write("/tmp/lines", "one\ntwo\nthree\nfour\n"));
  EXPECT_EQ(must(files.read("/tmp/lines", {.first_byte = 4, .byte_count = 3})), "two");
  EXPECT_EQ(must(files.read("/tmp/lines", {.first_byte = 14})), "four\n");
  EXPECT_EQ(must(files.read("/tmp/lines", {.first_line = 2, .line_count = 2})), "two\nthree");
  const auto both = files.read("/tmp/lines", {.first_byte = 1, .first_line = 1});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().kind, ErrorKind::InvalidArgument);
}

TEST_F(SdkFiles, WriteManyInOneRequest) {
  const auto files = sandbox().files();
  must(files.write_all(
      {{.path = "/tmp/m/1", .data = "eins"}, {.path = "/tmp/m/2"}, {.path = "/tmp/m/3", .data = "drei"}}));
  EXPECT_EQ(must(files.read("/tmp/m/1")), "eins");
  EXPECT_EQ(must(files.read("/tmp/m/2")), "");
  EXPECT_EQ(must(files.read("/tmp/m/3")), "drei");
}

TEST_F(SdkFiles, AreStreamed) {
  const auto files = sandbox().files();
  const std::string block = some_bytes(70'000);
  int left = 100;
  const auto sent = must(files.write_from("/tmp/stream", [&]() -> Result<std::string_view> {
    return left-- > 0 ? std::string_view(block) : std::string_view();
  }));
  EXPECT_EQ(sent, 7'000'000u);
  std::string got;
  EXPECT_EQ(must(files.read_to("/tmp/stream",
                               [&](std::string_view piece) -> Result<void> {
                                 got += piece;
                                 return {};
                               })),
            7'000'000u);
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += block;
  EXPECT_TRUE(got == expected);
}

TEST_F(SdkFiles, StopWhenTheCallerFails) {
  const auto files = sandbox().files();
  const Error mine{.kind = ErrorKind::Local, .code = "MINE", .message = "no more"};
  int calls = 0;
  const auto sent = files.write_from("/tmp/never", [&]() -> Result<std::string_view> {
    if (++calls > 3) return Failure(mine);
    return std::string_view("some bytes");
  });
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, "MINE");
  const auto info = files.info("/tmp/never");
  ASSERT_FALSE(info);
  EXPECT_TRUE(info.error().not_found());

  must(files.write("/tmp/some", some_bytes(5'000'000)));
  const auto got = files.read_to("/tmp/some", [&](std::string_view) -> Result<void> { return Failure(mine); });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "MINE");
  EXPECT_TRUE(must(sandbox().is_healthy()));
}

TEST_F(SdkFiles, GoToAndFromLocalFiles) {
  const auto files = sandbox().files();
  const std::string bytes = some_bytes(3'000'001);
  const std::string local = testing::TempDir() + "/sdk-local-" + sandbox().id();
  std::ofstream(local, std::ios::binary) << bytes;
  std::uint64_t last = 0;
  EXPECT_EQ(must(files.upload(local, "/tmp/up", {},
                              [&](std::uint64_t done, std::optional<std::uint64_t> total) {
                                EXPECT_GE(done, last);
                                EXPECT_EQ(total, 3'000'001u);
                                last = done;
                              })),
            bytes.size());
  EXPECT_EQ(last, bytes.size());
  const std::string back = local + "-back";
  EXPECT_EQ(must(files.download("/tmp/up", back)), bytes.size());
  std::ifstream in(back, std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(in), {}) == bytes);
  const auto missing = files.download("/no/such", back + "-none");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().not_found());
  EXPECT_FALSE(std::ifstream(back + "-none").is_open());
  const auto nothing = files.upload("/no/such/local/file", "/tmp/x");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::Local);
  std::remove(local.c_str());
  std::remove(back.c_str());
}

TEST_F(SdkFiles, CanBeListedMovedChangedAndRemoved) {
  const auto files = sandbox().files();
  must(files.make_directories({"/tmp/d/e", "/tmp/f"}, {.mode = 750}));
  EXPECT_EQ(must(files.info("/tmp/d/e")).type, "directory");
  must(files.write("/tmp/d/one.txt", "a b a"));
  must(files.write("/tmp/d/e/two.txt", "x"));
  EXPECT_EQ(must(files.list("/tmp/d")).size(), 2u);
  EXPECT_EQ(must(files.list("/tmp/d", 2)).size(), 3u);
  EXPECT_EQ(must(files.search("/tmp/d", "*.txt")).size(), 2u);
  EXPECT_EQ(must(files.infos({"/tmp/d", "/tmp/d/one.txt"})).size(), 2u);
  EXPECT_EQ(must(files.replace({{"/tmp/d/one.txt", "a", "c"}})),
            (std::map<std::string, std::int64_t>{{"/tmp/d/one.txt", 2}}));
  EXPECT_EQ(must(files.read("/tmp/d/one.txt")), "c b c");
  must(files.move("/tmp/d/one.txt", "/tmp/f/moved.txt"));
  must(files.set_permissions({{"/tmp/f/moved.txt", {.mode = 600}}}));
  EXPECT_EQ(must(files.info("/tmp/f/moved.txt")).mode, 600);
  must(files.remove({"/tmp/f/moved.txt"}));
  must(files.remove_directories({"/tmp/d"}));
  EXPECT_FALSE(files.info("/tmp/d"));
}

TEST_F(SdkFiles, GoBothWaysAsWholeDirectories) {
  namespace fs = std::filesystem;
  const auto files = sandbox().files();
  const fs::path root = testing::TempDir() + "/sdk-tree-" + sandbox().id();
  const fs::path from = root / "from", to = root / "to" / "new";
  fs::create_directories(from / "sub" / "empty");
  const std::string bytes = some_bytes(2'500'000);
  std::ofstream(from / "sub" / "big", std::ios::binary) << bytes;
  std::ofstream(from / std::string(180, 'n')) << "long name";
  std::ofstream(from / "script") << "#!/bin/sh\n";
  fs::permissions(from / "script", fs::perms(0751));
  fs::create_symlink("script", from / "link");
  fs::create_hard_link(from / "script", from / "sub" / "same");
  {
    std::ofstream(from / "none");
  }
  must(files.upload_directory(from, "/tmp/tree"));
  EXPECT_EQ(
      must(sandbox().commands().run("cd /tmp/tree && readlink link && stat -c '%a %h' script && wc -c < sub/big && "
                                    "ls -d sub/empty && truncate -s 5M sub/holes && echo end >> sub/holes"))
          .stdout_text(),
      "script\n751 2\n2500000\nsub/empty\n");
  must(files.download_directory("/tmp/tree", to));
  const auto text = [](const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_TRUE(text(to / "sub" / "big") == bytes);
  EXPECT_EQ(text(to / std::string(180, 'n')), "long name");
  EXPECT_EQ(fs::read_symlink(to / "link"), "script");
  EXPECT_EQ(fs::status(to / "script").permissions(), fs::perms(0751));
  EXPECT_EQ(fs::last_write_time(to / "script"), fs::last_write_time(from / "script"));
  EXPECT_TRUE(fs::equivalent(to / "script", to / "sub" / "same"));
  EXPECT_TRUE(fs::is_directory(to / "sub" / "empty"));
  EXPECT_TRUE(fs::is_regular_file(to / "none"));
  const std::string holes = text(to / "sub" / "holes");
  EXPECT_TRUE(holes == std::string(5 << 20, '\0') + "end\n");
  must(files.download_directory("/tmp/tree", to));  // over what is there
  const auto missing = files.download_directory("/no/such", root / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().not_found());
  EXPECT_FALSE(fs::exists(root / "nothing"));
  EXPECT_FALSE(files.upload_directory("/no/such", "/tmp/x"));
  fs::remove_all(root);
}

TEST_F(SdkFiles, BelongToAnotherUserWhenHeMakesThem) {
  must(sandbox().files().make_directories({"/tmp/open"}, {.mode = 777}));
  const auto his = sandbox().files_as(1234, 1234);
  must(his.write("/tmp/open/his", "x"));
  EXPECT_EQ(must(sandbox().commands().run("stat -c %u /tmp/open/his")).stdout_text(), "1234\n");
}

}  // namespace
}  // namespace opensandbox
