#include "http/status.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(Status, EveryCodeHasAStatusAndComesBackFromIt) {
  for (const Code code :
       {Code::Internal, Code::InvalidRequest, Code::Unprocessable, Code::Unauthorized, Code::Forbidden, Code::NotFound,
        Code::Conflict, Code::TooLarge, Code::Exhausted, Code::Unsupported, Code::Unavailable, Code::Timeout}) {
    EXPECT_EQ(code_of(status_of(code)), code) << status_of(code);
  }
  EXPECT_EQ(status_of(Code::Cancelled), 503);
  EXPECT_EQ(code_of(503), Code::Unavailable);
  EXPECT_EQ(code_of(418), Code::Internal);
}

}  // namespace
}  // namespace osb::http
