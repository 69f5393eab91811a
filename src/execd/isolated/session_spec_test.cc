#include "execd/isolated/session_spec.h"

#include <gtest/gtest.h>

#include "execd/isolated/packet.h"

namespace osb::execd {
namespace {

TEST(SessionSpec, SurvivesItsEncoding) {
  SessionSpec spec;
  spec.mounts = {{"/a", "/a", SessionMount::Mode::ReadWrite}, {"/s", "/a/b", SessionMount::Mode::Overlay, false}};
  spec.private_tmp = false;
  spec.share_net = false;
  spec.uid = 7;
  spec.upper_bytes = 1 << 20;
  spec.diff_bytes = 5;
  spec.reserve = {-1, 8};
  spec.user_namespace = true;
  const auto read = decode_session_spec(encode_session_spec(spec));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->mounts.size(), 2U);
  EXPECT_EQ(read->mounts[1].source, "/s");
  EXPECT_EQ(read->mounts[1].path, "/a/b");
  EXPECT_EQ(read->mounts[1].mode, SessionMount::Mode::Overlay);
  EXPECT_FALSE(read->mounts[1].persist);
  EXPECT_FALSE(read->private_tmp);
  EXPECT_FALSE(read->share_net);
  EXPECT_EQ(read->uid, 7U);
  EXPECT_FALSE(read->gid);
  EXPECT_EQ(read->upper_bytes, 1U << 20);
  EXPECT_EQ(read->diff_bytes, 5U);
  EXPECT_EQ(read->reserve.bytes, -1);
  EXPECT_EQ(read->reserve.inodes, 8);
  EXPECT_TRUE(read->user_namespace);
}

TEST(SessionSpec, OfAnEarlierExecdIsUnderstood) {
  const auto read = decode_session_spec(pack_strings({"1", "1", "1", "", "", "1", "5", "/a", "/b", "rw", "1"}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->reserve.bytes, 0);
  EXPECT_EQ(read->mounts.at(0).path, "/b");
  const auto second =
      decode_session_spec(pack_strings({"2", "1", "1", "", "", "1", "5", "0", "3", "/a", "/b", "rw", "1"}));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->reserve.inodes, 3);
  EXPECT_FALSE(second->user_namespace);
  EXPECT_EQ(second->mounts.at(0).path, "/b");
}

TEST(SessionSpec, HostileBytesAreRefused) {
  SessionSpec spec;
  spec.upper_bytes = 1;
  const std::string good = encode_session_spec(spec);
  for (std::size_t cut = 1; cut < good.size(); ++cut) EXPECT_FALSE(decode_session_spec(good.substr(0, cut))) << cut;
  EXPECT_FALSE(decode_session_spec(good + std::string(8, '\xff')));
  for (const char* path : {"", "/", "a", "/a/..", "/a/", "//a"}) {
    spec.mounts = {{path, "/ok", SessionMount::Mode::ReadWrite}};
    EXPECT_FALSE(decode_session_spec(encode_session_spec(spec))) << path;
    spec.mounts = {{"/ok", path, SessionMount::Mode::ReadWrite}};
    EXPECT_FALSE(decode_session_spec(encode_session_spec(spec))) << path;
  }
  spec.mounts.assign(1000, {"/a", "/a", SessionMount::Mode::ReadWrite});
  EXPECT_FALSE(decode_session_spec(encode_session_spec(spec)));
  for (const char* version : {"", "0", "4", "x", "18446744073709551616"}) {
    EXPECT_FALSE(decode_session_spec(pack_strings({version, "1", "1", "", "", "1", "1", "0", "0", "0"}))) << version;
  }
  for (const char* uid : {"-1", "4294967295", "99999999999", "x"}) {
    EXPECT_FALSE(decode_session_spec(pack_strings({"2", "1", "1", uid, "", "1", "1", "0", "0"}))) << uid;
    EXPECT_FALSE(decode_session_spec(pack_strings({"1", "1", "1", uid, "", "1", "1"}))) << uid;
  }
}

}  // namespace
}  // namespace osb::execd
