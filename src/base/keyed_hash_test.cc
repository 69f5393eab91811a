#include "base/keyed_hash.h"

#include <string>

#include <gtest/gtest.h>

namespace osb {
namespace {

// The example of the paper, and two of the reference's list of vectors: keys 00 to 0f, texts 00, 01, ...
TEST(KeyedHash, GivesTheVectorsOfSipHash) {
  const KeyedHash hash({0x0706050403020100, 0x0f0e0d0c0b0a0908});
  std::string text;
  EXPECT_EQ(hash(text), 0x726fdb47dd0e0e31u);
  while (text.size() < 8) text.push_back(static_cast<char>(text.size()));
  EXPECT_EQ(hash(text), 0x93f5f5799a932462u);
  while (text.size() < 15) text.push_back(static_cast<char>(text.size()));
  EXPECT_EQ(hash(text), 0xa129ca6149be45e5u);
}

TEST(KeyedHash, TwoKeysGiveTwoHashes) {
  const KeyedHash first, second;
  EXPECT_EQ(first("a"), first("a"));
  EXPECT_NE(first("a"), second("a"));
}

}  // namespace
}  // namespace osb
