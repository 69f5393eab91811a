#include "tls/sha256.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace osb::tls {
namespace {

std::string hex(const Sha256Bytes& bytes) {
  std::string out;
  for (const std::uint8_t b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

TEST(Sha256, KnownSums) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSumOfTheWholeAndFinishStartsAgain) {
  Sha256 hasher;
  for (int round = 0; round < 2; ++round) {
    for (const char* piece : {"a", "", "bc"}) hasher.update(piece);
    EXPECT_EQ(hasher.finish(), sha256("abc")) << round;
  }
}

}  // namespace
}  // namespace osb::tls
