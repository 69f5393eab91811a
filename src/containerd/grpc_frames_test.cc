#include "containerd/grpc_frames.h"

#include <gtest/gtest.h>

namespace osb::containerd {
namespace {

TEST(GrpcFrames, MessagesComeWholeHoweverTheyArrive) {
  const std::string large(100'000, 'x');
  const std::string bytes = grpc_frame("one") + grpc_frame("") + grpc_frame(large);
  for (const std::size_t step : {1ul, 3ul, 5ul, 4096ul, bytes.size()}) {
    GrpcFrames frames;
    std::vector<std::string> seen;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      frames.feed(std::string_view(bytes).substr(at, step));
      while (frames.ready()) {
        auto message = frames.next();
        ASSERT_TRUE(message && *message);
        seen.push_back(std::move(**message));
      }
      EXPECT_EQ(*frames.next(), std::nullopt);
    }
    EXPECT_TRUE(frames.empty());
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "", large})) << step;
  }
}

TEST(GrpcFrames, CompressedAndEndlessMessagesAreRefusedAtTheirFirstBytes) {
  GrpcFrames compressed;
  compressed.feed(std::string(1, '\1'));
  ASSERT_TRUE(compressed.ready());
  EXPECT_EQ(compressed.next().error().code, Code::Unsupported);
  GrpcFrames endless;
  endless.feed(std::string("\0\1\0\0\1", 5));  // a byte more than the limit
  ASSERT_TRUE(endless.ready());
  EXPECT_EQ(endless.next().error().code, Code::TooLarge);
  EXPECT_FALSE(endless.next());
}

TEST(GrpcFrames, AMessageThatWasCutOffIsSeen) {
  GrpcFrames frames;
  frames.feed(grpc_frame("hello").substr(0, 8));
  EXPECT_FALSE(frames.ready());
  EXPECT_FALSE(frames.empty());
}

}  // namespace
}  // namespace osb::containerd
