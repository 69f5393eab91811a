#include "cli/live/forward_spec.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(ForwardSpec, ThreeForms) {
  EXPECT_EQ(parse_forward_spec("8080:80")->local, 8080);
  EXPECT_EQ(parse_forward_spec("8080:80")->remote, 80);
  EXPECT_EQ(parse_forward_spec("3000")->local, 3000);
  EXPECT_EQ(parse_forward_spec("3000")->remote, 3000);
  EXPECT_EQ(parse_forward_spec(":22")->local, 0);
  EXPECT_EQ(parse_forward_spec("0:22")->local, 0);
}

TEST(ForwardSpec, NonsenseIsRefused) {
  for (const char* text : {"", ":", "80:", "0", "80:0", "65536", "a:80", "80:a", "-1:80", "80:80:80", "80 "}) {
    EXPECT_FALSE(parse_forward_spec(text)) << text;
  }
}

}  // namespace
}  // namespace osb::cli
