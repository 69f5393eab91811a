#include "http/path_token.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(PathToken, IsTakenOffTheFrontOfATarget) {
  struct {
    const char* why;
    std::string target, secret, rest;
  } rows[] = {
      {"a route", "/access-token/t0/command", "t0", "/command"},
      {"with a query", "/access-token/t0/files/info?path=/access-token/x", "t0", "/files/info?path=/access-token/x"},
      {"nothing behind it", "/access-token/t0", "t0", "/"},
      {"a slash behind it", "/access-token/t0/", "t0", "/"},
      {"a query behind it", "/access-token/t0?a=b", "t0", "/?a=b"},
      {"no secret", "/access-token//ping", "", "/ping"},
      {"nothing at all", "/access-token/", "", "/"},
      {"only the first one", "/access-token/t0/access-token/t1/ping", "t0", "/access-token/t1/ping"},
      {"nothing is decoded", "/access-token/%74%30/%70ing", "%74%30", "/%70ing"},
      {"dots are a secret like any other", "/access-token/../ping", "..", "/ping"},
      {"the rest is left alone", "/access-token/t0/../../etc//x", "t0", "/../../etc//x"},
  };
  for (auto& row : rows) {
    const auto secret = take_path_token(row.target);
    ASSERT_TRUE(secret) << row.why;
    EXPECT_EQ(*secret, row.secret) << row.why;
    EXPECT_EQ(row.target, row.rest) << row.why;
  }
}

TEST(PathToken, OtherSpellingsAreNone) {
  for (const std::string given :
       {"/ping", "/", "*", "", "/access-token", "/access-token?t0", "//access-token/t0/ping", "/./access-token/t0/ping",
        "/x/../access-token/t0/ping", "/Access-Token/t0/ping", "/%61ccess-token/t0/ping", "/access-token%2Ft0/ping",
        "/access-tokens/t0/ping", "/proxy/44772/access-token/t0/ping", "/ping?/access-token/t0/"}) {
    std::string target = given;
    EXPECT_FALSE(take_path_token(target)) << given;
    EXPECT_EQ(target, given);
  }
}

TEST(PathToken, OnlySecretsThatNeedNoEscapingFit) {
  EXPECT_TRUE(fits_path("0123456789abcdefABCDEF-_"));
  for (const char* secret : {"", ".", "..", "a/b", "a?b", "a b", "a%20", "a#b", "a.b", "\xc3\xa4"}) {
    EXPECT_FALSE(fits_path(secret)) << secret;
  }
}

TEST(PathToken, AMadePathIsTaken) {
  std::string target = path_of_token("t-0_1") + "/ping";
  EXPECT_EQ(take_path_token(target), "t-0_1");
  EXPECT_EQ(target, "/ping");
}

TEST(PathToken, LogsDoNotShowIt) {
  const std::string_view before = "/v1/sandboxes/s1/proxy/44772";
  struct {
    const char *path, *shown;
  } rows[] = {
      {"/access-token/s3cret/command", "/access-token/***/command"},
      {"/access-token/s3cret", "/access-token/***"},
      {"/access-token//s3cret/ping", "/access-token//***/ping"},
      {"//access-token/s3cret/ping", "//access-token/***/ping"},
      {"/ACCESS-token/s3cret/ping", "/ACCESS-token/***/ping"},
      {"/%61ccess-token/s3cret/ping", "/%61ccess-token/***/ping"},
      {"/access-token%2Fs3cret/ping", "/***/***"},
      {"/access-token=s3cret/ping", "/***/***"},
      {"/access-token/a/access-token/s3cret/ping", "/access-token/***/access-token/***/ping"},
      {"/%zzaccess-token/s3cret/ping", "/***/***/ping"},
      {"/access-token/s3cret%/ping", "/access-token/***/***"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(loggable_path(row.path), row.shown);
    EXPECT_EQ(loggable_path(std::string(before) + row.path), std::string(before) + row.shown);
  }
}

TEST(PathToken, LogsShowEverythingElseAsItCame) {
  for (const char* path : {"", "*", "/", "//", "/ping", "/v1/sandboxes/a%20b/", "/files//x", "/access/token/x"}) {
    EXPECT_EQ(loggable_path(path), path);
  }
}

}  // namespace
}  // namespace osb::http
