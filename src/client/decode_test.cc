#include "client/decode.h"

#include <gtest/gtest.h>

#include "api/json.h"

namespace opensandbox {
namespace {

Reply reply(std::string body) { return {.status = 200, .headers = {}, .request_id = "r-1", .body = std::move(body)}; }

TEST(DecodeTest, ASandboxWithEverything) {
  const auto got = decode_sandbox(reply(R"({"id":"a","status":{"state":"Running","reason":"r","message":"m",
    "lastTransitionAt":"2025-01-02T03:04:05Z"},"image":{"uri":"debian"},"entrypoint":["sh","-c"],
    "platform":{"os":"linux","arch":"arm64"},"metadata":{"k":"v","n":7},"createdAt":"2025-01-02T03:04:05.5Z",
    "expiresAt":"2025-01-02T04:04:05Z","unknown":[1]})"));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->id, "a");
  EXPECT_EQ(got->status.state, "Running");
  EXPECT_EQ(got->image, "debian");
  EXPECT_EQ(got->entrypoint, (std::vector<std::string>{"sh", "-c"}));
  EXPECT_EQ(got->platform->arch, "arm64");
  EXPECT_EQ(got->metadata, (StringMap{{"k", "v"}, {"n", "7"}}));
  EXPECT_EQ(format_timestamp(got->created_at), "2025-01-02T03:04:05.500000Z");
  EXPECT_EQ(*got->expires_at - *got->status.last_transition_at, std::chrono::hours(1));
}

TEST(DecodeTest, FieldsThatAreAbsentOrOfAnotherTypeAreEmpty) {
  const auto got = decode_sandbox(
      reply(R"({"id":"a","status":"Running","entrypoint":"sh","metadata":null,"expiresAt":null,"image":{}})"));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->status.state, "");
  EXPECT_TRUE(got->entrypoint.empty());
  EXPECT_FALSE(got->metadata || got->expires_at || got->platform);
}

TEST(DecodeTest, AnAnswerThatIsNoSandboxIsRefusedWithItsRequest) {
  for (const char* body : {"", "[]", "<html>", "{", "null"}) {
    const auto got = decode_sandbox(reply(body));
    ASSERT_FALSE(got) << body;
    EXPECT_EQ(got.error().kind, ErrorKind::InvalidResponse) << body;
    EXPECT_EQ(got.error().request_id, "r-1") << body;
  }
  EXPECT_FALSE(decode_sandbox_list(reply(R"({"pagination":{}})"))) << "a list without items";
}

TEST(DecodeTest, AListHasItsPage) {
  const auto got = decode_sandbox_list(reply(
      R"({"items":[{"id":"a"},7,{"id":"b"}],"pagination":{"page":2,"pageSize":2,"totalItems":9,"hasNextPage":true}})"));
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->items.size(), 2u);
  EXPECT_EQ(got->items[1].id, "b");
  EXPECT_EQ(got->pagination.page, 2);
  EXPECT_TRUE(got->pagination.has_next_page);
}

TEST(EncodeTest, ACreateSaysOnlyWhatWasAskedFor) {
  EXPECT_EQ(encode_create({.image = "debian", .timeout = {}, .entrypoint = {}, .resource_limits = {}}),
            R"({"image":{"uri":"debian"},"resourceLimits":{}})");
  const auto full = osb::api::parse_json(encode_create({.snapshot_id = "s",
                                                        .timeout = std::chrono::seconds(60),
                                                        .network_policy = NetworkPolicy{"deny", {{"allow", "*.org"}}},
                                                        .credential_proxy = true,
                                                        .secure_access = true,
                                                        .platform = Platform{"linux", "amd64"}}));
  ASSERT_TRUE(full);
  const json::object& object = full->get_object();
  EXPECT_FALSE(object.contains("image"));
  EXPECT_EQ(text_of(object, "snapshotId"), "s");
  EXPECT_EQ(int_of(object, "timeout"), 60);
  EXPECT_EQ(json::serialize(object.at("networkPolicy")),
            R"({"defaultAction":"deny","egress":[{"action":"allow","target":"*.org"}]})");
  EXPECT_TRUE(bool_of(object, "secureAccess"));
}

TEST(EncodeTest, HooksAndPoliciesAreTheContracts) {
  CreateOptions options;
  options.lifecycle.pre_start = PreStartHook{{"true"}, std::chrono::seconds(5)};
  options.lifecycle.periodic = {{"a", "@hourly", {"b", "c"}}};
  options.lifecycle.idle = IdlePolicy{std::chrono::seconds(60), false, ActiveProbe{80, "/x"}};
  options.lifecycle.renew_on_access = std::chrono::seconds(300);
  const auto body = osb::api::parse_json(encode_create(options));
  ASSERT_TRUE(body);
  const auto expected = osb::api::parse_json(
      R"({"preStart":{"command":["true"],"timeoutSeconds":5},
          "periodic":[{"name":"a","schedule":"@hourly","command":["b","c"]}],
          "idlePolicy":{"wakeOnAccess":false,"idleTimeoutSeconds":60,"onIdle":"pause",
                        "activeProbe":{"port":80,"path":"/x"}},
          "renewalPolicy":{"extendSeconds":300}})");
  EXPECT_EQ(body->get_object().at("lifecycle"), *expected);
  options.lifecycle = {};
  EXPECT_FALSE(osb::api::parse_json(encode_create(options))->get_object().contains("lifecycle"));
}

TEST(PeerTest, AnEndpointBecomesAnOriginAndAPrefix) {
  const auto peer = Peer::parse("http://10.0.0.1:8080/proxy/44772/");
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->origin, "http://10.0.0.1:8080");
  EXPECT_EQ(peer->prefix, "/proxy/44772");
  EXPECT_EQ(Peer::parse("https://[::1]/x")->host, "[::1]:443");
  for (const char* bad : {"", "unix:/run/x", "http://", "ftp://x"}) EXPECT_FALSE(Peer::parse(bad)) << bad;
}

TEST(QueryTest, ValuesAreEncoded) {
  std::string target = "/files";
  add_query(target, "path", "/a b&c");
  add_query(target, "x", "1");
  EXPECT_EQ(target, "/files?path=" + encode("/a b&c") + "&x=1");
  EXPECT_EQ(encode("/a b&c").find_first_of(" &"), std::string::npos);
}

}  // namespace
}  // namespace opensandbox
