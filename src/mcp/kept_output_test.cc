#include "mcp/kept_output.h"

#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

KeptOutput::Line line_of(std::size_t bytes) { return {std::string(bytes, 'x'), 1, false}; }

TEST(KeptOutput, ASessionHasItsLastRunThatPrintedTooMuch) {
  KeptOutput kept;
  const auto first = kept.begin("box", "a");
  kept.add(*first, line_of(10));
  const auto other = kept.begin("box", "b");
  EXPECT_EQ(kept.find(first->number), first);
  const auto second = kept.begin("box", "a");
  EXPECT_EQ(kept.find(first->number), first) << "its successor may turn out to be short";
  kept.finish(*second, true);
  EXPECT_EQ(kept.find(first->number), nullptr);
  const auto third = kept.begin("box", "a");
  kept.finish(*third, false);
  EXPECT_EQ(kept.find(third->number), nullptr);
  EXPECT_EQ(kept.find(second->number), second);
  EXPECT_EQ(kept.find(other->number), other);
  kept.forget_session("box", "a");
  EXPECT_EQ(kept.find(second->number), nullptr);
  kept.forget_sandbox("box");
  EXPECT_EQ(kept.find(other->number), nullptr);
  kept.add(*other, line_of(10));  // it may still print
  EXPECT_EQ(other->dropped, 1u);
}

TEST(KeptOutput, ARunKeepsItsBeginning) {
  KeptOutput kept;
  const auto run = kept.begin("box", "a");
  for (int i = 0; i < 20; ++i) kept.add(*run, line_of(1 << 20));
  kept.add(*run, line_of(1));  // behind a gap nothing is kept, however short
  EXPECT_EQ(run->lines.size(), 7u);
  EXPECT_EQ(run->dropped, 14u);
}

TEST(KeptOutput, TheOldestRunsGoFirst) {
  KeptOutput kept;
  std::vector<std::uint64_t> numbers;
  for (int session = 0; session < 12; ++session) {
    const auto run = kept.begin("box", std::to_string(session));
    numbers.push_back(run->number);
    for (int i = 0; i < 7; ++i) kept.add(*run, line_of(1 << 20));
  }
  EXPECT_EQ(kept.find(numbers.front()), nullptr);
  EXPECT_NE(kept.find(numbers.back()), nullptr);
  std::size_t bytes = 0;
  for (const auto number : numbers) bytes += kept.find(number) ? kept.find(number)->bytes : 0;
  EXPECT_LE(bytes, KeptOutput::kMostBytes);
  EXPECT_GT(bytes, KeptOutput::kMostBytes / 2);
}

}  // namespace
}  // namespace osb::mcp
