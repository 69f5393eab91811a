#include "execd/proxy/port_proxy.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

TEST(ProxyPath, PortAndRestAreTakenApart) {
  struct {
    const char* target;
    std::optional<std::uint16_t> port;
    const char* rest;
  } rows[] = {
      {"/proxy/8080/a/b?c=d", 8080, "/a/b?c=d"},
      {"/proxy/8080", 8080, "/"},
      {"/proxy/8080/", 8080, "/"},
      {"/proxy/8080?x=/y", 8080, "/?x=/y"},
      {"/proxy/8080//double", 8080, "//double"},
      {"/proxy/8080/%2Fencoded", 8080, "/%2Fencoded"},
      {"/proxy/08080/x", 8080, "/x"},
      {"/proxy/65535/", 65535, "/"},
      {"/proxy/65536/", std::nullopt, "/"},
      {"/proxy/0/", std::nullopt, "/"},
      {"/proxy/-1/", std::nullopt, "/"},
      {"/proxy/80a/", std::nullopt, "/"},
      {"/proxy//x", std::nullopt, "/x"},
      {"/proxy", std::nullopt, "/"},
      {"/proxy/", std::nullopt, "/"},
      {"/proxy?x", std::nullopt, "/?x"},
  };
  for (const auto& row : rows) {
    const auto path = parse_proxy_path(row.target);
    ASSERT_TRUE(path) << row.target;
    EXPECT_EQ(path->port, row.port) << row.target;
    EXPECT_EQ(path->target, row.rest) << row.target;
  }
}

TEST(ProxyPath, OtherPathsAreNotProxied) {
  for (const char* target : {"/", "*", "/prox", "/proxyx", "/proxies/80/", "/x/proxy/80/", "/Proxy/80/"}) {
    EXPECT_FALSE(parse_proxy_path(target)) << target;
  }
}

TEST(ForwardedFor, TakesTheFirstOfTheChain) {
  http::Request request;
  request.peer = "192.0.2.9";
  EXPECT_EQ(forwarded_for(request), "192.0.2.9");
  request.headers.set("X-Real-IP", " 192.0.2.2 ");
  EXPECT_EQ(forwarded_for(request), "192.0.2.2");
  request.headers.set("X-Forwarded-For", "192.0.2.1, 192.0.2.3");
  EXPECT_EQ(forwarded_for(request), "192.0.2.1");
  request.headers.set("X-Forwarded-For", " , 192.0.2.3");
  EXPECT_EQ(forwarded_for(request), "192.0.2.2") << "an empty first entry is none";
}

}  // namespace
}  // namespace osb::execd
