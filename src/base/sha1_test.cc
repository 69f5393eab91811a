#include "base/sha1.h"

#include <gtest/gtest.h>

#include "base/base64.h"

namespace osb {
namespace {

TEST(Sha1, HasTheVectorsOfItsStandard) {
  EXPECT_EQ(encode_base64(sha1("abc")), "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=");
  EXPECT_EQ(encode_base64(sha1("")), "2jmj7l5rSw0yVb/vlWAYkK/YBwk=");
  EXPECT_EQ(encode_base64(sha1(std::string(1'000'000, 'a'))), "NKqXPNTE2qT2Husr260nMWU0AW8=");
}

}  // namespace
}  // namespace osb
