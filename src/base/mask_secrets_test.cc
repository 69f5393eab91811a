#include "base/mask_secrets.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(MaskSecrets, HidesTheValueAndKeepsTheRest) {
  struct {
    const char* why;
    const char* text;
    const char* want;
  } rows[] = {
      {"nothing to hide", "ls -la /tmp", "ls -la /tmp"},
      {"variable", "DB_PASSWORD=hunter2 ./run", "DB_PASSWORD=*** ./run"},
      {"flag with equals", "tool --token=abc --verbose", "tool --token=*** --verbose"},
      {"flag with space", "tool --api-key abc --verbose", "tool --api-key *** --verbose"},
      {"flag without value", "tool --password --verbose", "tool --password --verbose"},
      {"camel case", "tool apiKey=abc x", "tool apiKey=*** x"},
      {"quoted value", "PASSWORD='a b' x", "PASSWORD=*** x"},
      {"value of several quoted parts", "SECRET=a\"b c\"'d e'f x", "SECRET=*** x"},
      {"escaped space", "SECRET=a\\ b x", "SECRET=*** x"},
      {"bearer", "curl -H \"Authorization: Bearer abc.def\" http://h", "curl -H \"Authorization: ***\" http://h"},
      {"bearer alone", "echo bearer abc done", "echo bearer *** done"},
      {"basic", "curl -H 'Authorization: Basic dXNlcg==' h", "curl -H 'Authorization: ***' h"},
      {"header", "curl -H 'X-API-Key: abc' h", "curl -H 'X-API-Key: ***' h"},
      {"cookie", "curl -H 'Cookie: a=b; c=d' h", "curl -H 'Cookie: ***' h"},
      {"url", "git clone https://me:pw@host/x", "git clone https://me:***@host/x"},
      {"url with at sign in the password", "get ftp://me:p@w@host/x", "get ftp://me:***@host/x"},
      {"url with token", "git clone https://ghp_x@host/x", "git clone https://***@host/x"},
      {"url without user", "get http://host:80/a@b", "get http://host:80/a@b"},
      {"query", "curl 'http://h/?token=abc&x=1'", "curl 'http://h/?token=***&x=1'"},
      {"json", "curl -d '{\"password\": \"a\\\"b\", \"user\": \"me\"}'",
       "curl -d '{\"password\": \"***\", \"user\": \"me\"}'"},
      {"escaped json", "curl -d \"{\\\"password\\\":\\\"abc\\\",\\\"u\\\":1}\"",
       "curl -d \"{\\\"password\\\":\\\"***\\\",\\\"u\\\":1}\""},
      {"curl user", "curl -u me:pw h", "curl -u me:*** h"},
      {"date -u", "date -u", "date -u"},
      {"ends in a name", "set password", "set password"},
      {"ends in an equals sign", "password=", "password="},
      {"ends in a backslash", "password=a\\", "password=***"},
      {"unclosed quote", "password='abc def", "password=***"},
      {"aws", "AWS_SECRET_ACCESS_KEY=abc AWS_REGION=x", "AWS_SECRET_ACCESS_KEY=*** AWS_REGION=x"},
      {"name before a url", "token://x", "token://x"},
  };
  for (const auto& row : rows) EXPECT_EQ(mask_secrets(row.text), row.want) << row.why;
}

TEST(MaskSecrets, LongHostileTextTakesLinearTime) {
  std::string names(1 << 20, 'a');
  EXPECT_EQ(mask_secrets(names), names);
  std::string quotes;
  while (quotes.size() < 1 << 18) quotes += "key\"\"\"\"";
  EXPECT_EQ(mask_secrets(quotes), quotes);
}

}  // namespace
}  // namespace osb
