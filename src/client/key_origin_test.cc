#include "client/key_origin.h"

#include <gtest/gtest.h>

namespace opensandbox {
namespace {

TEST(KeyOriginTest, AKeyGoesToItsOwnServerOnly) {
  const struct {
    const char* why;
    ServerAddress owner, target;
    bool may;
  } rows[] = {
      {"the same", {"box.example:8080"}, {"box.example:8080"}, true},
      {"letters of a host name", {"Box.Example:80"}, {"box.example"}, true},
      {"the default port, written", {"https://box.example"}, {"box.example:443", "https"}, true},
      {"two names of one machine", {"localhost:8080"}, {"127.0.0.1:8080"}, true},
      {"a better protocol", {"box.example:8080"}, {"https://box.example:8080"}, true},
      {"a better protocol on its port", {"box.example"}, {"https://box.example"}, true},
      {"a worse protocol", {"https://box.example"}, {"http://box.example"}, false},
      {"the scheme of a URL beats the protocol", {"http://box.example", "https"}, {"box.example", "http"}, true},
      {"another port", {"box.example:8080"}, {"box.example:8081"}, false},
      {"another host", {"box.example"}, {"evil.example"}, false},
      {"a host that begins alike", {"box.example"}, {"box.example.evil.example"}, false},
      {"a user in front of another host", {"box.example"}, {"http://box.example@evil.example"}, false},
      {"no host at all", {""}, {""}, false},
  };
  for (const auto& row : rows) EXPECT_EQ(key_may_go(row.owner, row.target), row.may) << row.why;
}

}  // namespace
}  // namespace opensandbox
