#include "image/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::image {
namespace {

using ::testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

struct Case {
  std::string text, canonical, familiar;
};

TEST(Reference, IsCompletedAsDockerDoes) {
  const Case cases[] = {
      {"debian", "docker.io/library/debian:latest", "debian"},
      {"debian:12", "docker.io/library/debian:12", "debian:12"},
      {"library/debian", "docker.io/library/debian:latest", "debian"},
      {"docker.io/debian", "docker.io/library/debian:latest", "debian"},
      {"index.docker.io/library/debian:12", "docker.io/library/debian:12", "debian:12"},
      {"user/tool", "docker.io/user/tool:latest", "user/tool"},
      {"library/a/b", "docker.io/library/a/b:latest", "library/a/b"},
      {"docker.io/a.b/c", "docker.io/a.b/c:latest", "docker.io/a.b/c"},
      {"localhost/tool", "localhost/tool:latest", "localhost/tool"},
      {"localhost:5000/a/b:x", "localhost:5000/a/b:x", "localhost:5000/a/b:x"},
      {"ghcr.io/o/r:V1.2_x-y", "ghcr.io/o/r:V1.2_x-y", "ghcr.io/o/r:V1.2_x-y"},
      {"Host/repo", "Host/repo:latest", "Host/repo"},
      {"[::1]:5000/a", "[::1]:5000/a:latest", "[::1]:5000/a"},
      {"127.0.0.1:5000/a/b@" + kDigest, "127.0.0.1:5000/a/b@" + kDigest, "127.0.0.1:5000/a/b@" + kDigest},
      {"debian:12@" + kDigest, "docker.io/library/debian:12@" + kDigest, "debian:12@" + kDigest},
      {"debian:latest@" + kDigest, "docker.io/library/debian:latest@" + kDigest, "debian:latest@" + kDigest},
      {"a__b/c---d.e_f", "docker.io/a__b/c---d.e_f:latest", "a__b/c---d.e_f"},
      {std::string(63, 'a'), "docker.io/library/" + std::string(63, 'a') + ":latest", std::string(63, 'a')},
  };
  for (const Case& c : cases) {
    const auto got = Reference::parse(c.text);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->to_string(), c.canonical);
    EXPECT_EQ(got->familiar(), c.familiar);
    for (const std::string& again : {got->to_string(), got->familiar()})
      EXPECT_EQ(Reference::parse(again).value(), *got) << again;
  }
}

TEST(Reference, InvalidNamesAreRefused) {
  const std::string cases[] = {"",
                               " ",
                               "a b",
                               "Debian",
                               "a/B",
                               "a//b",
                               "/a",
                               "a/",
                               "-a",
                               "a-",
                               "a..b",
                               "a___b",
                               "a._b",
                               "a:",
                               "a:-x",
                               "a:" + std::string(129, 'x'),
                               "a@",
                               "a@sha256:12",
                               "a@sha256:" + std::string(64, 'A'),
                               std::string(64, 'a'),
                               "host:0/a",
                               "host:99999/a",
                               "host:x/a",
                               "h..st/a",
                               "-h.x/a",
                               "[::1/a",
                               "[]/a",
                               "[x]/a",
                               "https://host/a",
                               "a?b",
                               "a/../b",
                               "a/%2e%2e/b",
                               "x.y/",
                               "a:b:c",
                               "\xc3\xa4",
                               std::string(300, 'a'),
                               std::string(2000, 'a')};
  for (const std::string& text : cases) {
    const auto got = Reference::parse(text);
    ASSERT_FALSE(got) << text << " -> " << got->to_string();
    EXPECT_EQ(got.error().code, Code::InvalidRequest) << text;
  }
  EXPECT_EQ(Reference::parse("a@sha512:" + std::string(128, 'a')).error().code, Code::Unsupported);
  EXPECT_THAT(Reference::parse("a/B").error().message, HasSubstr("lower case"));
}

TEST(Reference, TheManifestIsAskedForByDigestFirst) {
  EXPECT_EQ(Reference::parse("debian:12")->manifest_name(), "12");
  EXPECT_EQ(Reference::parse("debian:12@" + kDigest)->manifest_name(), kDigest);
  EXPECT_EQ(Reference::parse("debian")->registry_host(), "registry-1.docker.io");
  EXPECT_EQ(Reference::parse("localhost/x")->registry_host(), "localhost");
}

TEST(Digest, TextRoundTripsAndSumsAreRight) {
  const std::string empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  EXPECT_EQ(Digest::of("").to_string(), empty);
  EXPECT_EQ(*Digest::parse(empty), Digest::of(""));
  EXPECT_NE(*Digest::parse(kDigest), Digest::of(""));
}

}  // namespace
}  // namespace osb::image
