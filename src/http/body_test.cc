#include "http/body.h"

#include <vector>

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::http {
namespace {

class Pieces : public BodySource {
 public:
  Pieces(std::vector<std::string> pieces, std::optional<std::uint64_t> length)
      : pieces_(std::move(pieces)), length_(length) {}
  net::awaitable<Result<std::string_view>> read() override {
    ++reads;
    if (at_ == pieces_.size()) co_return std::string_view();
    if (pieces_[at_] == "broken") co_return fail(Code::Cancelled, "peer left");
    co_return pieces_[at_++];
  }
  std::optional<std::uint64_t> length() const override { return length_; }
  int reads = 0;

 private:
  std::vector<std::string> pieces_;
  std::optional<std::uint64_t> length_;
  std::size_t at_ = 0;
};

TEST(ReadAll, JoinsThePieces) {
  Pieces body({"ab", "c", "def"}, std::nullopt);
  EXPECT_EQ(testing::await(body.read_all(6)).value(), "abcdef");
  Pieces none({}, 0);
  EXPECT_EQ(testing::await(none.read_all(0)).value(), "");
}

TEST(ReadAll, StopsAtTheLimit) {
  Pieces body({"ab", "c", "def"}, std::nullopt);
  EXPECT_EQ(testing::await(body.read_all(5)).error().code, Code::TooLarge);
}

TEST(ReadAll, ADeclaredLengthAboveTheLimitIsRefusedUnread) {
  Pieces body({"abc"}, 3);
  EXPECT_EQ(testing::await(body.read_all(2)).error().code, Code::TooLarge);
  EXPECT_EQ(body.reads, 0);
}

TEST(ReadAll, PassesErrorsOn) {
  Pieces body({"abc", "broken"}, std::nullopt);
  EXPECT_EQ(testing::await(body.read_all(100)).error().message, "peer left");
}

class Recorder : public BodyWriter {
 public:
  using BodyWriter::write;
  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    for (const std::string_view piece : pieces) written += piece;
    ++calls;
    co_return Result<void>();
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>(); }
  net::awaitable<void> peer_closed() override { co_return; }
  std::string written;
  int calls = 0;
};

TEST(BodyWriter, OnePieceGoesOutAsOneWrite) {
  Recorder writer;
  EXPECT_TRUE(testing::await(writer.write("hello")));
  EXPECT_EQ(writer.written, "hello");
  EXPECT_EQ(writer.calls, 1);
}

}  // namespace
}  // namespace osb::http
