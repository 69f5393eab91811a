#include "execd/file/content/ordered_pieces.h"

#include <atomic>
#include <latch>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/blocking_pool.h"
#include "support/await.h"

namespace osb::execd {
namespace {

using Made = OrderedPieces::Made;

class OrderedPiecesTest : public ::testing::Test {
 protected:
  // Runs once with a taker that has enough after `count` pieces; what it took is added to `taken_`.
  Result<bool> run(OrderedPieces& pieces, std::size_t count) {
    return testing::await(io_, pieces.run([&](std::string& piece) -> net::awaitable<Result<bool>> {
      taken_ += piece + " ";
      co_return --count > 0;
    }));
  }

  net::io_context io_{1};
  BlockingPool pool_{4};
  std::atomic<std::size_t> number_ = 0;
  std::string taken_;
};

TEST_F(OrderedPiecesTest, ComeOutInOrderEvenIfALaterOneIsReadyFirst) {
  std::latch second_made(1);
  OrderedPieces pieces(io_.get_executor(), pool_, [&](std::size_t, std::string& out) -> Result<Made> {
    const std::size_t number = number_++;
    if (number == 0) second_made.wait();  // only another thread can make it go on
    out = std::to_string(number);
    if (number == 1) second_made.count_down();
    return Made{number, number < 20};
  });
  const auto more = run(pieces, SIZE_MAX);
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_FALSE(*more);
  EXPECT_EQ(taken_, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 ");
}

TEST_F(OrderedPiecesTest, NothingIsMadeWithoutATakerAndNothingIsLost) {
  OrderedPieces pieces(io_.get_executor(), pool_, [&](std::size_t, std::string& out) -> Result<Made> {
    const std::size_t number = number_++;
    out = std::to_string(number);
    return Made{number, number < 9};
  });
  for (std::size_t taken = 1; taken < 10; ++taken) {
    const auto more = run(pieces, 1);
    ASSERT_TRUE(more) << more.error().message;
    EXPECT_TRUE(*more);
    EXPECT_LE(number_, taken + OrderedPieces::kWorkers);
  }
  const auto more = run(pieces, 1);
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_FALSE(*more);
  EXPECT_EQ(taken_, "0 1 2 3 4 5 6 7 8 9 ");
}

TEST_F(OrderedPiecesTest, AFailureEndsIt) {
  OrderedPieces pieces(io_.get_executor(), pool_, [&](std::size_t, std::string&) -> Result<Made> {
    const std::size_t number = number_++;
    if (number == 5) return fail(Code::Internal, "the fifth");
    return Made{number, true};
  });
  const auto failed = run(pieces, SIZE_MAX);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "the fifth");
}

TEST_F(OrderedPiecesTest, ATakerThatFailsEndsIt) {
  OrderedPieces pieces(io_.get_executor(), pool_,
                       [&](std::size_t, std::string&) -> Result<Made> { return Made{number_++, true}; });
  const auto failed = testing::await(
      io_, pieces.run([](std::string&) -> net::awaitable<Result<bool>> { co_return fail(Code::Internal, "gone"); }));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "gone");
  EXPECT_LE(number_, 2 * OrderedPieces::kWorkers);
}

}  // namespace
}  // namespace osb::execd
