#include "intercept/h2_fixture.h"

namespace osb::intercept {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

const std::string kBearer = "Bearer " + std::string(kSecret);

TEST_F(H2Test, ARequestGetsItsCredentialAndTheAnswerLosesIt) {
  start_host();
  H2Peer& client = connect();
  const auto& seen = ask(client, get("/v1", {{"authorization", "Bearer placeholder"}, {"x-own", "kept"}}));
  EXPECT_EQ(seen.head.status, 200);
  EXPECT_EQ(seen.body, "here is /v1");
  EXPECT_EQ(seen.head.fields.get("x-echo"), "Bearer [REDACTED]");
  const auto& arrived = host().streams.begin()->second.head;
  EXPECT_EQ(arrived.fields.count("authorization"), 1u);
  EXPECT_EQ(arrived.fields.get("authorization"), kBearer);
  EXPECT_EQ(arrived.fields.get("x-own"), "kept");
  EXPECT_EQ(arrived.authority, kHost);
  EXPECT_THAT(rules_.served, ElementsAre(Pair(kHost, 200)));
  rules_.target = "/key/of/the/vault";
  EXPECT_EQ(ask(client, get("/key/placeholder")).head.status, 200);
  EXPECT_EQ(host().streams[3].head.path, *rules_.target);
}

TEST_F(H2Test, MessagesPassInBothDirectionsAndTrailersFollow) {
  serve_ = [](H2Peer& self, std::int32_t id) {
    H2Head head;
    head.status = 200;
    head.fields = {{"content-type", "application/grpc"}};
    self.session().respond(id, head, true);
  };
  start_host();
  H2Peer& client = connect();
  const std::int32_t id =
      client.ask(post("/service/chat", {{"content-type", "application/grpc"}, {"te", "trailers"}}), true);
  H2Peer& server = host();
  for (const std::string text : {"one", "two", "three"}) {
    client.say(id, text);
    EXPECT_TRUE(await(io_, server.until([&] { return server.streams[1].body.ends_with(text); })));
    server.say(1, "heard " + text);
    EXPECT_TRUE(await(io_, client.until([&] { return client.streams[id].body.ends_with("heard " + text); })));
  }
  EXPECT_EQ(server.streams[1].head.fields.get("te"), "trailers");
  client.say(id, "", true);
  EXPECT_TRUE(await(io_, server.until_ended(1)));
  server.streams[1].last_trailers = {{"grpc-status", "0"}, {"grpc-message", kBearer}};
  server.say(1, "", true);
  EXPECT_TRUE(await(io_, client.until_ended(id)));
  EXPECT_EQ(client.streams[id].trailers.get("grpc-status"), "0");
  EXPECT_EQ(client.streams[id].trailers.get("grpc-message"), "Bearer [REDACTED]");
}

TEST_F(H2Test, EveryStreamIsJudgedByItself) {
  start_host();
  rules_.denied_path = "/denied";
  H2Peer& client = connect();
  const std::int32_t denied = client.ask(post("/denied"), true);  // it goes on sending
  const auto& allowed = ask(client, get("/allowed"));
  EXPECT_EQ(allowed.head.status, 200);
  EXPECT_TRUE(await(io_, client.until([&] { return client.streams[denied].closed.has_value(); })));
  EXPECT_EQ(client.streams[denied].head.status, 403);
  EXPECT_EQ(client.streams[denied].closed, H2Code::None);
  // A rotated credential counts from the next request on.
  rules_.bound[kHost] = "Bearer rotated";
  ask(client, get("/rotated"));
  EXPECT_EQ(host().streams[3].head.fields.get("authorization"), "Bearer rotated");
  // So does a policy that denies the host now.
  rules_.denied.insert(kHost);
  EXPECT_EQ(ask(client, get("/late")).head.status, 403);
  EXPECT_EQ(host().streams.size(), 2u);
  EXPECT_EQ(hosts_.size(), 1u);
}

TEST_F(H2Test, FormsThatTwoReadersCouldReadInTwoWaysAreRefused) {
  start_host();
  H2Peer& client = connect();
  const auto with = [](auto change) {
    H2Head head = get();
    change(head);
    return head;
  };
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.authority = "other.example.com"; })).head.status, 421);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.authority = kHost + ":1"; })).head.status, 421);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.authority = "user@" + kHost; })).head.status, 421);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.fields.add("host", "other.example.com"); })).head.status, 400);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.scheme = "http"; })).head.status, 400);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.method = "TRACE"; })).head.status, 405);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.path = "/a#b"; })).head.status, 400);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.fields.add("x-long", std::string(70'000, 'x')); })).head.status, 431);
  EXPECT_EQ(ask(client, with([](H2Head& h) { h.fields.add("host", kHost); })).head.status, 200);
  EXPECT_EQ(host().streams.size(), 1u);
  EXPECT_FALSE(host().streams[1].head.fields.contains("host"));
}

TEST_F(H2Test, ClientsGetTheVersionThatTheHostSpeaks) {
  start_host(tls::Offer::Http1);
  EXPECT_FALSE(tls::speaks_http2(*dial_http2(tls::Offer::Http2Or1)));
  // The connection on which the host has chosen serves the next request.
  auto client = dial_http2(tls::Offer::Http2Or1);
  EXPECT_THAT(talk(*client, InterceptorTest::get(kHost)), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("in 1.1")));
  // A client that speaks nothing else hears why, in the way of gRPC too.
  H2Peer& only = connect();
  const auto& seen = ask(only, post("/", {{"content-type", "application/grpc"}}), "message");
  EXPECT_EQ(seen.head.status, 502);
  EXPECT_EQ(seen.head.fields.get("grpc-status"), "14");
  EXPECT_THAT(std::string(seen.head.fields.get("grpc-message")), StartsWith("credential binding test: "));
}

TEST_F(H2Test, AClientWithoutHttp2GetsTheFirstVersion) {
  start_host(tls::Offer::Http2Or1);
  EXPECT_THAT(talk(*dial_http2(tls::Offer::Http1), InterceptorTest::get(kHost)), HasSubstr("in 1.1"));
}

TEST_F(H2Test, AHostWithAWrongCertificateIsNamedInTheAnswer) {
  start_host();
  world_trust_ = trusting(Certificate({.common_name = "other", .alt_names = "", .authority = true}).certificate_pem());
  start();
  H2Peer& client = connect();
  const auto& seen = ask(client, get());
  EXPECT_EQ(seen.head.status, 502);
  EXPECT_THAT(seen.body, AllOf(HasSubstr("credential binding test"), HasSubstr("certificate")));
  EXPECT_TRUE(await(io_, client.until([&] { return client.going_away; })));
  EXPECT_TRUE(hosts_.empty());
}

TEST_F(H2Test, AResetPassesInBothDirections) {
  serve_ = [](H2Peer& self, std::int32_t id) {
    if (self.streams[id].head.path == "/busy") self.session().reset(id, H2Code::Calm);
  };
  start_host();
  H2Peer& client = connect();
  const std::int32_t busy = client.ask(get("/busy"));
  EXPECT_TRUE(await(io_, client.until([&] { return client.streams[busy].closed.has_value(); })));
  EXPECT_EQ(client.streams[busy].closed, H2Code::Calm);
  const std::int32_t left = client.ask(post("/slow"), true);
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_.back()->streams.contains(3); })));
  client.session().reset(left, H2Code::Cancel);
  client.flush();
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_.back()->streams[3].closed.has_value(); })));
  EXPECT_EQ(host().streams[3].closed, H2Code::Cancel);
  EXPECT_THAT(rules_.served, ElementsAre(Pair(kHost, 502), Pair(kHost, 499)));
}

TEST_F(H2Test, AnAnswerBeforeTheEndOfTheRequestStopsTheClient) {
  serve_ = [](H2Peer& self, std::int32_t id) { self.answer(id, 413, "too large"); };
  start_host();
  H2Peer& client = connect();
  const std::int32_t id = client.ask(post(), true);
  EXPECT_TRUE(await(io_, client.until_ended(id)));
  host().session().reset(1, H2Code::None);
  host().flush();
  EXPECT_TRUE(await(io_, client.until([&] { return client.streams[id].closed.has_value(); })));
  EXPECT_EQ(client.streams[id].body, "too large");
  EXPECT_EQ(client.streams[id].closed, H2Code::None);
}

TEST_F(H2Test, AHostThatLeavesEndsItsStreamsAndTheConnection) {
  serve_ = [](H2Peer& self, std::int32_t id) {
    if (self.streams[id].head.path == "/begun") {
      H2Head head;
      head.status = 200;
      self.session().respond(id, head, true);
    }
  };
  start_host();
  H2Peer& client = connect();
  const std::int32_t begun = client.ask(get("/begun"));
  EXPECT_TRUE(await(io_, client.until([&] { return client.streams[begun].head.status == 200; })));
  const std::int32_t waiting = client.ask(get("/waiting"));
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_.back()->streams.contains(3); })));
  host().leave();
  EXPECT_TRUE(await(io_, client.until([&] { return client.over; })));
  EXPECT_TRUE(client.going_away);
  EXPECT_EQ(client.streams[begun].closed, H2Code::Internal);
  EXPECT_EQ(client.streams[waiting].head.status, 502);
  // The next connection is served by a new one to the host.
  serve_ = [](H2Peer& self, std::int32_t id) { self.answer(id, 200, "again"); };
  EXPECT_EQ(ask(connect(), get()).body, "again");
}

// A host that leaves in order: the client hears of it while its requests go on.
TEST_F(H2Test, AHostThatGoesAwayAnswersWhatItHasSeen) {
  serve_ = [](H2Peer&, std::int32_t) {};
  start_host();
  H2Peer& client = connect();
  const std::int32_t id = client.ask(get());
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->streams.contains(1); })));
  host().session().go_away(H2Code::None);
  host().flush();
  EXPECT_TRUE(await(io_, client.until([&] { return client.going_away; })));
  EXPECT_FALSE(client.streams[id].closed);
  host().answer(1, 200, "at last");
  host().flush();
  EXPECT_TRUE(await(io_, client.until_ended(id)));
  EXPECT_EQ(client.streams[id].body, "at last");
}

TEST_F(H2Test, AClientThatLeavesEndsItsRequests) {
  serve_ = [](H2Peer&, std::int32_t) {};
  start_host();
  H2Peer& client = connect();
  client.ask(get());
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->streams.contains(1); })));
  client.leave();
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->over; })));
  EXPECT_THAT(rules_.served, ElementsAre(Pair(kHost, 499)));
}

// Also with NO_ERROR, and after a whole request: the host need not send an answer that nobody reads.
TEST_F(H2Test, AClientThatCancelsWithoutAnErrorEndsItsRequest) {
  serve_ = [](H2Peer& self, std::int32_t id) {
    if (self.streams[id].head.path == "/next") self.answer(id, 200, "next");
  };
  start_host();
  H2Peer& client = connect();
  const std::int32_t id = client.ask(get("/cancelled"));
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->streams.contains(1); })));
  client.session().reset(id, H2Code::None);
  client.flush();
  EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->streams[1].closed.has_value(); })));
  EXPECT_EQ(host().streams[1].closed, H2Code::Cancel);
  EXPECT_EQ(ask(client, get("/next")).body, "next");
  EXPECT_THAT(rules_.served, ElementsAre(Pair(kHost, 499), Pair(kHost, 200)));
}

TEST_F(H2Test, OnlyContinueComesBeforeAnAnswer) {
  serve_ = [](H2Peer& self, std::int32_t id) {
    self.session().respond_interim(id, 103);
    self.session().respond_interim(id, 100);
  };
  start_host();
  H2Peer& client = connect();
  std::vector<int> statuses;
  client.serve = [&](H2Peer& self, std::int32_t id) { statuses.push_back(self.streams[id].head.status); };
  const std::int32_t id = client.ask(post("/path", {{"expect", "100-continue"}}), true);
  EXPECT_TRUE(await(io_, client.until([&] { return !statuses.empty(); })));
  client.say(id, "body", true);
  EXPECT_TRUE(await(io_, host().until_ended(1)));
  host().answer(1, 200, "");
  host().flush();
  EXPECT_TRUE(await(io_, client.until_ended(id)));
  EXPECT_THAT(statuses, ElementsAre(100, 200));
}

TEST_F(H2Test, OurOwnAnswersHaveTheFormOfTheirRequests) {
  rules_.answer = "50% of \xc3\xa4\n";
  start_host();
  H2Peer& client = connect();
  H2Head only_head = get();
  only_head.method = "HEAD";
  EXPECT_EQ(ask(client, get()).body, *rules_.answer);
  const auto& seen = ask(client, only_head);
  EXPECT_EQ(seen.head.status, 403);
  EXPECT_EQ(seen.body, "");
  EXPECT_NE(seen.closed, H2Code::Protocol);
  const auto& grpc = ask(client, post("/", {{"content-type", "application/grpc"}}), "message");
  EXPECT_EQ(grpc.head.fields.get("grpc-status"), "7");
  EXPECT_EQ(grpc.head.fields.get("grpc-message"), "50%25 of %C3%A4");
}

TEST_F(H2Test, FieldsThatAreTooLongEndTheirStreamAlone) {
  const http::Headers large = {{"x-long", std::string(70'000, 'x')}};
  serve_ = [&](H2Peer& self, std::int32_t id) {
    const std::string& path = self.streams[id].head.path;
    if (path == "/head") return self.answer(id, 200, "", large);
    if (path == "/trailers") return self.answer(id, 200, "text", {}, large);
    if (path == "/small") self.answer(id, 200, "");
  };
  start_host();
  H2Peer& client = connect({.head = 1 << 20});
  const auto& head = ask(client, get("/head"));
  EXPECT_EQ(head.head.status, 502);
  EXPECT_THAT(head.body, HasSubstr("too long"));
  const auto& trailers = ask(client, get("/trailers"));
  EXPECT_FALSE(trailers.ended);
  EXPECT_NE(trailers.closed, H2Code::None);
  const std::int32_t request = client.ask(post("/request"), true);
  client.streams[request].last_trailers = large;
  client.say(request, "text", true);
  EXPECT_TRUE(await(io_, client.until_ended(request)));
  EXPECT_EQ(client.streams[request].closed, H2Code::Calm);
  EXPECT_EQ(ask(client, get("/small")).head.status, 200);
  EXPECT_FALSE(host().streams[5].ended);
}

TEST_F(H2Test, RequestsAreFilteredAndTheirTrailersFollow) {
  rules_.scrub_requests = true;
  serve_ = [](H2Peer&, std::int32_t) {};
  start_host();
  H2Peer& client = connect();
  const std::string body = "<" + std::string(kSecret) + ">";
  const std::int32_t id = client.ask(post("/", {{"content-length", std::to_string(body.size())}}), true);
  client.streams[id].last_trailers = {{"x-sum", "7"}};
  client.say(id, body, true);
  EXPECT_TRUE(await(io_, host().until_ended(1)));
  EXPECT_EQ(host().streams[1].body, "<[REDACTED]>");
  EXPECT_FALSE(host().streams[1].head.fields.contains("content-length"));
  EXPECT_EQ(host().streams[1].trailers.get("x-sum"), "7");
}

TEST_F(H2Test, SecretsInBodiesAreScrubbedWhereThatIsWanted) {
  rules_.scrub_bodies = true;
  serve_ = [](H2Peer& self, std::int32_t id) {
    const H2Head& head = self.streams[id].head;
    EXPECT_EQ(head.fields.get("accept-encoding"), "identity");
    if (head.fields.contains("content-type")) {
      EXPECT_EQ(head.fields.get("grpc-accept-encoding"), "identity");
    }
    const std::string body = "<" + std::string(head.fields.get("authorization")) + ">";
    http::Headers fields = {{"content-length", std::to_string(body.size())}};
    if (head.path == "/zipped") fields.add("content-encoding", "gzip");
    if (head.path == "/grpc") fields.add("grpc-encoding", "gzip");
    self.answer(id, 200, body, std::move(fields));
  };
  start_host();
  H2Peer& client = connect();
  const auto& scrubbed = ask(client, get("/", {{"accept-encoding", "gzip"}}));
  EXPECT_EQ(scrubbed.body, "<Bearer [REDACTED]>");
  EXPECT_FALSE(scrubbed.head.fields.contains("content-length"));
  EXPECT_TRUE(scrubbed.ended);
  const auto& zipped = ask(client, get("/zipped"));
  EXPECT_EQ(zipped.head.status, 502);
  EXPECT_THAT(zipped.body, AllOf(HasSubstr("compressed"), Not(HasSubstr(std::string(kSecret)))));
  const http::Headers grpc = {{"content-type", "application/grpc"}, {"grpc-accept-encoding", "gzip"}};
  EXPECT_EQ(ask(client, post("/grpc", grpc), "message").head.fields.get("grpc-status"), "14");
}

}  // namespace
}  // namespace osb::intercept
