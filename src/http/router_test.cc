#include "http/router.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::http {
namespace {

// Answers with the pattern that was taken and the values of the parameters named in `names`.
Handler echo(std::vector<std::string> names = {}) {
  return [names](Request& request) -> net::awaitable<Response> {
    std::string text(request.route);
    for (const std::string& name : names) text += " " + name + "=" + request.params[name];
    co_return text_response(200, text);
  };
}

Response ask(const Router& router, std::string method, std::string target) {
  Request request;
  request.method = std::move(method);
  request.target = std::move(target);
  return testing::await(router.dispatch(request));
}

// "404" or the text of a 200.
std::string get(const Router& router, std::string target, std::string method = "GET") {
  const Response response = ask(router, std::move(method), std::move(target));
  return response.status == 200 ? std::get<std::string>(response.body) : std::to_string(response.status);
}

TEST(Router, LiteralsAndParametersMatchBySegment) {
  Router router;
  router.get("/", echo());
  router.get("/sandboxes", echo());
  router.get("/sandboxes/{id}", echo({"id"}));
  router.get("/sandboxes/{sandbox}/endpoints/{port}", echo({"sandbox", "port"}));
  EXPECT_EQ(get(router, "/"), "/");
  EXPECT_EQ(get(router, "/sandboxes?x=/y"), "/sandboxes");
  EXPECT_EQ(get(router, "/sandboxes/abc"), "/sandboxes/{id} id=abc");
  EXPECT_EQ(get(router, "/sandboxes/a/endpoints/80"), "/sandboxes/{sandbox}/endpoints/{port} sandbox=a port=80");
  EXPECT_EQ(get(router, "/sandboxes/a/endpoints"), "404");
  EXPECT_EQ(get(router, "/sandbox"), "404");
  EXPECT_EQ(get(router, "/Sandboxes"), "404");
}

TEST(Router, ALiteralBeatsAParameterAndSearchGoesBackWhenItLeadsNowhere) {
  Router router;
  router.get("/command/status/{id}", echo({"id"}));
  router.get("/command/{id}/logs", echo({"id"}));
  router.get("/command/{id:int}", echo({"id"}));
  router.get("/command/{name}", echo({"name"}));
  EXPECT_EQ(get(router, "/command/status/7"), "/command/status/{id} id=7");
  EXPECT_EQ(get(router, "/command/7/logs"), "/command/{id}/logs id=7");
  EXPECT_EQ(get(router, "/command/status"), "/command/{name} name=status");
  EXPECT_EQ(get(router, "/command/7"), "/command/{id:int} id=7");
  EXPECT_EQ(get(router, "/command/status/logs"), "/command/status/{id} id=logs");
}

TEST(Router, IntParametersTakeDigitsOnly) {
  Router router;
  router.get("/x/{port:int}", echo({"port"}));
  EXPECT_EQ(get(router, "/x/0080"), "/x/{port:int} port=0080");
  EXPECT_EQ(get(router, "/x/%38"), "/x/{port:int} port=8");
  for (const char* bad : {"/x/80a", "/x/-1", "/x/+1", "/x/", "/x/1.0"}) EXPECT_EQ(get(router, bad), "404") << bad;
}

TEST(Router, ATailTakesTheRawRest) {
  Router router;
  router.add("*", "/proxy/{port}/{rest*}", echo({"port", "rest"}));
  const std::string route = "/proxy/{port}/{rest*} port=80 rest=";
  EXPECT_EQ(get(router, "/proxy/80"), route);
  EXPECT_EQ(get(router, "/proxy/80/"), route);
  EXPECT_EQ(get(router, "/proxy/80/a/b/"), route + "a/b/");
  EXPECT_EQ(get(router, "/proxy/80//a"), route + "/a");
  EXPECT_EQ(get(router, "/proxy/80/a%2Fb%zz%00/../c?q"), route + "a%2Fb%zz%00/../c");
  EXPECT_EQ(get(router, "/proxy/80/x", "PURGE"), route + "x");
  EXPECT_EQ(get(router, "/proxy"), "404");
  EXPECT_EQ(get(router, "/proxy//x"), "404");
}

TEST(Router, OtherRoutesBeatATail) {
  Router router;
  router.get("/{rest*}", echo({"rest"}));
  router.get("/a/{id}", echo({"id"}));
  EXPECT_EQ(get(router, "/a/1"), "/a/{id} id=1");
  EXPECT_EQ(get(router, "/a/1/"), "/a/{id} id=1");
  EXPECT_EQ(get(router, "/a/1/2"), "/{rest*} rest=a/1/2");
  EXPECT_EQ(get(router, "/"), "/{rest*} rest=");
}

TEST(Router, OneTrailingSlashIsIgnored) {
  Router router;
  router.get("/a/b", echo());
  EXPECT_EQ(get(router, "/a/b/"), "/a/b");
  EXPECT_EQ(get(router, "/a/b//"), "404");
  EXPECT_EQ(get(router, "//a/b"), "404");
  EXPECT_EQ(get(router, "/a//b"), "404");
}

TEST(Router, SegmentsAreComparedDecoded) {
  Router router;
  router.get("/files/{path}/info", echo({"path"}));
  EXPECT_EQ(get(router, "/%66iles/a%2Fb%20c+d/inf%6F"), "/files/{path}/info path=a/b c+d");
  EXPECT_EQ(get(router, "/files%2Fx/info"), "404");
}

TEST(Router, DotSegmentsAreNotResolved) {
  Router router;
  router.get("/a", echo());
  router.get("/p/{x}", echo({"x"}));
  EXPECT_EQ(get(router, "/b/../a"), "404");
  EXPECT_EQ(get(router, "/./a"), "404");
  EXPECT_EQ(get(router, "/p/.."), "/p/{x} x=..");
  EXPECT_EQ(get(router, "/p/%2e%2E"), "/p/{x} x=..");
}

TEST(Router, BrokenEscapesAndNulAreBadRequests) {
  Router router;
  router.get("/a/{x}", echo());
  for (const char* bad : {"/a/%", "/a/%zz", "/a/%00", "/%0/b", "/unknown/%q"})
    EXPECT_EQ(get(router, bad), "400") << bad;
  EXPECT_EQ(get(router, std::string("/a/b\0c", 6)), "400");
  EXPECT_EQ(get(router, "/a/b?x=%zz"), "/a/{x}");
}

TEST(Router, TargetsThatAreNoPathMatchNothing) {
  Router router;
  router.add("*", "/{rest*}", echo());
  EXPECT_EQ(get(router, "*", "OPTIONS"), "404");
  EXPECT_EQ(get(router, ""), "404");
}

TEST(Router, UnknownPathsAreProblems) {
  const Response response = ask(Router(), "GET", "/x");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(std::get<std::string>(response.body), R"({"code":"GENERAL::NOT_FOUND","message":"no route for /x"})");
  const Response other = ask(Router(Router::Codes{.not_found = "NO_ROUTE"}), "GET", "/x");
  EXPECT_EQ(std::get<std::string>(other.body), R"({"code":"NO_ROUTE","message":"no route for /x"})");
}

TEST(Router, OtherMethodsAreToldWhatIsAllowed) {
  Router router;
  router.post("/x/a", echo());
  router.get("/x/a", echo());
  router.del("/x/{id}", echo());
  router.put("/x/{id}", echo());
  const Response response = ask(router, "PATCH", "/x/a");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers.get("Allow"), "DELETE, GET, HEAD, POST, PUT");
  EXPECT_EQ(ask(router, "PATCH", "/x/b").headers.get("Allow"), "DELETE, PUT");
  EXPECT_EQ(get(router, "/x/a", "DELETE"), "/x/{id}");  // the literal has no DELETE
  EXPECT_EQ(get(router, "/x/a", "get"), "405");         // methods have case
}

TEST(Router, HeadIsAnsweredByGetUnlessItHasItsOwn) {
  Router router;
  router.get("/a", echo());
  router.get("/b", echo());
  router.add("HEAD", "/b", [](Request&) -> net::awaitable<Response> { co_return text_response(200, "own"); });
  router.post("/c", echo());
  router.add("*", "/d", [](Request&) -> net::awaitable<Response> { co_return text_response(200, "any"); });
  router.get("/d", echo());
  EXPECT_EQ(get(router, "/a", "HEAD"), "/a");
  EXPECT_EQ(get(router, "/b", "HEAD"), "own");
  EXPECT_EQ(get(router, "/c", "HEAD"), "405");
  EXPECT_EQ(get(router, "/d", "HEAD"), "/d");
  EXPECT_EQ(get(router, "/d", "PUT"), "any");
}

TEST(Router, ParametersOfAnEarlierMatchAreGone) {
  Router router;
  router.get("/a/{x}", echo({"x", "y"}));
  Request request;
  request.method = "GET";
  request.target = "/a/1";
  request.params.add("y", "left over");
  EXPECT_EQ(std::get<std::string>(testing::await(router.dispatch(request)).body), "/a/{x} x=1 y=");
}

TEST(Router, MovesWithItsRoutes) {
  Router first;
  first.get("/a/{x}", echo({"x"}));
  const Router second = std::move(first);
  EXPECT_EQ(get(second, "/a/1"), "/a/{x} x=1");
}

TEST(Router, MalformedPatternsAndRepeatedRoutesAreBugs) {
  Router router;
  router.get("/x/{id}", echo());
  EXPECT_THROW(router.get("/x/{name}", echo()), std::logic_error);
  EXPECT_NO_THROW(router.post("/x/{name}", echo()));
  EXPECT_NO_THROW(router.get("/x/{id:int}", echo()));
  for (const char* bad : {"", "x", "/x/", "//", "/{", "/{}", "/{a", "/a{b}", "/{a}b", "/{a*}/b", "/{a}/{a}", "/{a:hex}",
                          "/a?b", "/a%20b", "/{a b}", "/*"}) {
    EXPECT_THROW(router.get(bad, echo()), std::logic_error) << bad;
  }
  EXPECT_THROW(router.add("", "/y", echo()), std::logic_error);
  EXPECT_THROW(router.get("/y", Handler()), std::logic_error);
  EXPECT_THROW(router.get("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}", echo()),
               std::logic_error);
}

}  // namespace
}  // namespace osb::http
