#include "kubernetes/watch.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/api_status.h"

namespace osb::kubernetes {
namespace {

using ::testing::HasSubstr;

std::string event(std::string_view type, std::string_view name) {
  return R"({"type":")" + std::string(type) + R"(","object":{"metadata":{"name":")" + std::string(name) + "\"}}}\n";
}

TEST(WatchDecoderTest, EventsCutAnywhereAreTheSame) {
  const std::string bytes = event("ADDED", "a") + "\n" + event("MODIFIED", "b") + event("SOMETHING", "x") +
                            event("DELETED", "c") + event("BOOKMARK", "d");
  for (std::size_t step = 1; step < bytes.size(); ++step) {
    WatchDecoder decoder;
    std::string names;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      decoder.add(std::string_view(bytes).substr(at, step));
      for (;;) {
        const auto next = decoder.next();
        ASSERT_TRUE(next) << next.error().message;
        if (!*next) break;
        names += key_of(*(*next)->object).name;
        names += std::to_string(static_cast<int>((*next)->type));
      }
    }
    ASSERT_EQ(names, "a0b1c2d3") << step;
  }
}

TEST(WatchDecoderTest, AnErrorEventIsTheServersError) {
  WatchDecoder decoder;
  decoder.add(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}})"
      "\n");
  const auto next = decoder.next();
  ASSERT_FALSE(next);
  EXPECT_TRUE(is_expired(next.error()));
  EXPECT_EQ(next.error().message, "too old resource version");
}

TEST(WatchDecoderTest, BytesThatAreNoEventsAreRefused) {
  for (const char* bad : {"x\n", "[]\n", "{}\n",
                          R"({"type":"ADDED","object":1})"
                          "\n"}) {
    WatchDecoder decoder;
    decoder.add(bad);
    EXPECT_FALSE(decoder.next()) << bad;
  }
  WatchDecoder endless;
  endless.add(std::string((16 << 20) + 1, ' '));
  EXPECT_THAT(endless.next().error().message, HasSubstr("without an end"));
}

TEST(ApiStatusTest, RefusalsKeepTheServersReason) {
  const Error exists = api_error(409, R"({"kind":"Status","reason":"AlreadyExists","message":"pods \"a\" exists"})");
  EXPECT_TRUE(already_exists(exists));
  EXPECT_FALSE(is_conflict(exists));
  EXPECT_TRUE(is_conflict(api_error(409, R"({"reason":"Conflict"})")));
  EXPECT_TRUE(is_not_found(api_error(404, "404 page not found")));
  EXPECT_THAT(api_error(404, "404 page not found").message, HasSubstr("404 page not found"));
  EXPECT_TRUE(is_expired(api_error(410, "")));
  EXPECT_EQ(api_error(502, "").code, Code::Unavailable);
  EXPECT_EQ(api_error(422, "{}").code, Code::Unprocessable);
}

}  // namespace
}  // namespace osb::kubernetes
