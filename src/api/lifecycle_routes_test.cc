// Endpoints, pools, diagnostics and images.

#include "api/lifecycle_diagnostics.h"
#include "api/lifecycle_endpoint.h"
#include "api/lifecycle_image.h"
#include "api/lifecycle_pool.h"
#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using std::chrono::seconds;
using testing::kParameter;
using testing::refused;
using Pairs = std::vector<std::pair<std::string, std::string>>;

const Timestamp kTime = *parse_timestamp("2025-01-02T03:04:05Z");

TEST(EndpointRequest, TakesPortProxyAndExpiry) {
  const auto plain = decode_endpoint_query("44772", {}, "NATIVE", false);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->port, 44772);
  EXPECT_FALSE(plain->use_server_proxy);
  EXPECT_TRUE(decode_endpoint_query("1", Pairs{{"use_server_proxy", "Yes"}}, "NATIVE", false)->use_server_proxy);
  const auto last = decode_endpoint_query("65535", Pairs{{"expires", "18446744073709551615"}}, "KUBERNETES", true);
  EXPECT_EQ(last->expires, 18446744073709551615u);
}

TEST(EndpointRequest, ChecksInTheContractsOrder) {
  const struct {
    const char* port;
    Pairs query;
    const char* backend;
    bool signing;
    int status;
    std::string_view reason, message;
  } rows[] = {
      {"x", {}, "NATIVE", false, 422, kParameter, "path/port: expected an integer"},
      {"80.5", {}, "NATIVE", false, 422, kParameter, "path/port: expected an integer"},
      {"", {}, "NATIVE", false, 422, kParameter, "path/port: expected an integer"},
      {"1", {{"use_server_proxy", "maybe"}}, "NATIVE", false, 422, kParameter, "query/use_server_proxy: "},
      {"1", {{"expires", "x"}}, "NATIVE", false, 422, kParameter, "query/expires: expected an integer"},
      {"0",
       {{"use_server_proxy", "1"}, {"expires", "5"}},
       "DOCKER",
       false,
       400,
       kParameter,
       "query/expires: cannot be"},
      {"0", {{"expires", "5"}}, "DOCKER", false, 400, "SANDBOX::API_NOT_SUPPORTED", "query/expires: signed routes"},
      {"0", {{"expires", "5"}}, "NATIVE", false, 400, kParameter, "query/expires: signed routes"},
      {"0", {}, "NATIVE", false, 400, "NATIVE::INVALID_PORT", "path/port: must be from 1 to 65535"},
      {"-1", {}, "NATIVE", false, 400, "NATIVE::INVALID_PORT", "path/port: must be from 1 to 65535"},
      {"65536", {}, "DOCKER", false, 400, "DOCKER::INVALID_PORT", "path/port: must be from 1 to 65535"},
      {"99999999999999999999", {}, "DOCKER", false, 400, "DOCKER::INVALID_PORT", "path/port: must be"},
      {"1", {{"expires", "-5"}}, "KUBERNETES", true, 400, kParameter, "query/expires: must be from 0"},
      {"1",
       {{"expires", "18446744073709551616"}},
       "KUBERNETES",
       true,
       400,
       kParameter,
       "query/expires: must be from 0"},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(refused(decode_endpoint_query(row.port, row.query, row.backend, row.signing), row.status, row.reason,
                        row.message))
        << row.port;
  }
  EXPECT_TRUE(check_route_expiry(6, 5));
  EXPECT_TRUE(refused(check_route_expiry(5, 5), 400, kParameter, "query/expires: is not in the future"));
}

TEST(EndpointResponse, LeavesEmptyHeadersOut) {
  EXPECT_EQ(encode_endpoint({"10.0.0.1:80", {}}), R"({"endpoint":"10.0.0.1:80"})");
  EXPECT_EQ(encode_endpoint({"a", {{"X", "1"}, {"Y", "2"}}}), R"({"endpoint":"a","headers":{"X":"1","Y":"2"}})");
  EXPECT_EQ(server_proxy_endpoint("", "localhost:8080", "", "id", 80), "localhost:8080/sandboxes/id/proxy/80");
  EXPECT_EQ(server_proxy_endpoint("", "localhost:8080", "/v1", "id", 80), "localhost:8080/v1/sandboxes/id/proxy/80");
  EXPECT_EQ(server_proxy_endpoint("https://box.example.com/base/", "h", "/v1", "id", 80),
            "box.example.com/base/sandboxes/id/proxy/80");
}

TEST(PoolRequest, TakesItsFields) {
  const auto got = decode_create_pool(
      R"({"name":"warm","template":{"spec":{}},"capacitySpec":{"bufferMax":"5","bufferMin":2,"poolMax":20.0,"poolMin":0}})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->capacity, (PoolCapacity{5, 2, 20, 0}));
  EXPECT_TRUE(got->pod_template.contains("spec"));
  EXPECT_EQ(decode_update_pool(R"({"capacitySpec":{"bufferMax":1,"bufferMin":1,"poolMax":1,"poolMin":1}})")->pool_max,
            1);
  constexpr std::string_view kSpec = R"("capacitySpec":{"bufferMax":1,"bufferMin":1,"poolMax":1,"poolMin":1}})";
  const std::pair<std::string, std::string> rows[] = {
      {"{}", "/name: required"},
      {R"({"name":"A","template":{},)" + std::string(kSpec), "/name: must have"},
      {R"({"name":")" + std::string(254, 'a') + R"(","template":{},)" + std::string(kSpec), "/name: must have"},
      {R"({"name":"a",)" + std::string(kSpec), "/template: required"},
      {R"({"name":"a","template":[],)" + std::string(kSpec), "/template: required"},
      {R"({"name":"a","template":{}})", "/capacitySpec: required"},
      {R"({"name":"a","template":{},"capacitySpec":{"bufferMax":-1}})", "/capacitySpec/bufferMax: expected"},
      {R"({"name":"a","template":{},"capacitySpec":{"bufferMax":1}})", "/capacitySpec/bufferMin: required"},
  };
  for (const auto& [body, message] : rows) {
    EXPECT_TRUE(refused(decode_create_pool(body), 422, kParameter, message)) << body;
  }
  EXPECT_TRUE(refused(decode_update_pool("{}"), 422, kParameter, "/capacitySpec: required"));
  EXPECT_TRUE(refused(Result<int>(pools_not_supported()), 501, "KUBERNETES::POOL_NOT_SUPPORTED", "pools need"));
}

TEST(PoolResponse, ShowsWhatHasAValue) {
  const Pool bare{"a", {5, 2, 20, 1}, {}, {}};
  EXPECT_EQ(encode_pool(bare), R"({"name":"a","capacitySpec":{"bufferMax":5,"bufferMin":2,"poolMax":20,"poolMin":1}})");
  const Pool full{"a", {}, PoolStatus{4, 1, 3, "6d5f"}, kTime};
  EXPECT_NE(encode_pool(full).find(R"("status":{"total":4,"allocated":1,"available":3,"revision":"6d5f"},)"
                                   R"("createdAt":"2025-01-02T03:04:05Z"})"),
            std::string::npos);
  const Pool items[] = {bare, bare};
  EXPECT_EQ(encode_pool_list(items), R"({"items":[)" + encode_pool(bare) + "," + encode_pool(bare) + "]}");
  EXPECT_EQ(encode_pool_list({}), R"({"items":[]})");
}

TEST(DiagnosticsRequest, HasDefaultsAndRanges) {
  EXPECT_EQ(decode_logs_query({})->tail, 100);
  EXPECT_FALSE(decode_logs_query({})->scope);
  EXPECT_EQ(decode_events_query({})->limit, 50);
  EXPECT_EQ(decode_summary_query({})->tail, 50);
  EXPECT_EQ(decode_summary_query({})->event_limit, 20);
  const auto logs = decode_logs_query(Pairs{{"scope", "all"}, {"tail", "10000"}, {"since", "2h"}});
  EXPECT_EQ(logs->scope, "all");
  EXPECT_EQ(logs->tail, 10000);
  EXPECT_EQ(logs->since, seconds(7200));
  constexpr std::string_view kScope = "DIAGNOSTICS_SCOPE_UNSUPPORTED";
  EXPECT_TRUE(refused(decode_logs_query(Pairs{{"scope", "moon"}}), 400, kScope,
                      "Unsupported logs diagnostics scope 'moon'. Supported scopes: container, all."));
  EXPECT_TRUE(refused(decode_events_query(Pairs{{"scope", ""}}), 400, kScope,
                      "Unsupported events diagnostics scope ''. Supported scopes: runtime, lifecycle, all."));
  EXPECT_TRUE(refused(decode_logs_query(Pairs{{"scope", "runtime"}}), 400, kScope, ""));
  EXPECT_EQ(decode_events_query(Pairs{{"scope", " ALL "}})->scope, "all");
  EXPECT_EQ(decode_events_query(Pairs{{"scope", "Runtime"}})->scope, "runtime");
  for (const char* bad : {"0", "10001", "x", ""}) {
    EXPECT_TRUE(refused(decode_logs_query(Pairs{{"tail", bad}}), 422, kParameter, "query/tail: ")) << bad;
    EXPECT_TRUE(refused(decode_summary_query(Pairs{{"tail", bad}}), 422, kParameter, "query/tail: ")) << bad;
    EXPECT_TRUE(refused(decode_events_query(Pairs{{"limit", bad}}), 422, kParameter, "query/limit: ")) << bad;
    EXPECT_TRUE(refused(decode_summary_query(Pairs{{"event_limit", bad}}), 422, kParameter, "query/event_limit: "));
  }
  EXPECT_FALSE(decode_events_query(Pairs{{"limit", "501"}}));
}

TEST(DiagnosticsRequest, ATimeThatCannotBeReadIsTenMinutes) {
  const std::pair<const char*, seconds> rows[] = {{"90", seconds(90)},
                                                  {"90s", seconds(90)},
                                                  {"15m", seconds(900)},
                                                  {"2h", seconds(7200)},
                                                  {"1d", seconds(86400)},
                                                  {"", seconds(600)},
                                                  {"x", seconds(600)},
                                                  {"1w", seconds(600)},
                                                  {"m", seconds(600)},
                                                  {"-5m", seconds(600)},
                                                  {"1.5h", seconds(600)},
                                                  {"0", seconds(0)},
                                                  {"9223372036854775807d", std::chrono::days(36500)}};
  for (const auto& [text, want] : rows) EXPECT_EQ(parse_since(text), want) << text;
}

TEST(LogStream, IsFollowedFromTheBeginUnlessAskedOtherwise) {
  const auto plain = decode_log_stream_query({});
  EXPECT_TRUE(plain->follow);
  EXPECT_FALSE(plain->tail);
  EXPECT_FALSE(plain->since);
  const auto all = decode_log_stream_query(Pairs{{"tail", "0"}, {"since", "2m"}, {"follow", "false"}});
  EXPECT_EQ(all->tail, 0U);
  EXPECT_EQ(all->since, seconds(120));
  EXPECT_FALSE(all->follow);
  EXPECT_TRUE(decode_log_stream_query(Pairs{{"follow", ""}})->follow);
  for (const char* bad : {"-1", "x", ""}) {
    EXPECT_TRUE(refused(decode_log_stream_query(Pairs{{"tail", bad}}), 422, kParameter, "query/tail: ")) << bad;
  }
  EXPECT_TRUE(refused(decode_log_stream_query(Pairs{{"follow", "maybe"}}), 422, kParameter, "query/follow: "));
}

TEST(LogStream, EventsCarryAnyBytes) {
  std::string out;
  append_output_event(out, "2025-01-02T03:04:05Z", "a \"b\"\n");
  EXPECT_EQ(out, R"({"type":"output","time":"2025-01-02T03:04:05Z","text":"a \"b\"\n"})");
  out.clear();
  append_output_event(out, "", "\xFF\n");
  EXPECT_EQ(out, R"({"type":"output","base64":"/wo="})");
  EXPECT_EQ(encode_log_end_event(7, "Terminated", "", 3),
            R"({"type":"end","timestamp":7,"state":"Terminated","exitCode":3})");
  EXPECT_EQ(encode_log_end_event(7, "Running", "WHY", {}),
            R"({"type":"end","timestamp":7,"state":"Running","reason":"WHY"})");
  EXPECT_EQ(encode_log_error_event(8, "A::B", "gone"),
            R"({"type":"error","timestamp":8,"code":"A::B","message":"gone"})");
}

TEST(DiagnosticsContext, NamesTheSandboxWhereItRuns) {
  EXPECT_EQ(encode_diagnostic_context("s", "docker", {{"containerId", "c"}, {"containerName", "n"}}, "Running"),
            R"({"sandboxId":"s","backendType":"docker",)"
            R"("backendIdentifiers":{"containerId":"c","containerName":"n"},"state":"Running"})");
  EXPECT_EQ(encode_diagnostic_context("s", "native", {}, "Pending"),
            R"({"sandboxId":"s","backendType":"native","backendIdentifiers":{},"state":"Pending"})");
}

TEST(DiagnosticsResponse, IsInlineOrAUrl) {
  DiagnosticContent content;
  content.sandbox_id = "s";
  content.kind = "logs";
  content.scope = "container";
  content.content = "a\n";
  EXPECT_EQ(encode_diagnostic(content),
            R"({"sandboxId":"s","kind":"logs","scope":"container","delivery":"inline",)"
            R"("contentType":"text/plain; charset=utf-8","content":"a\n","contentLength":2,"truncated":false})");
  content.content_url = "/v1/blobs/1";
  content.url_expires_at = kTime;
  content.truncated = true;
  content.warnings = {"x", "y"};
  EXPECT_EQ(encode_diagnostic(content), R"({"sandboxId":"s","kind":"logs","scope":"container","delivery":"url",)"
                                        R"("contentType":"text/plain; charset=utf-8","contentUrl":"/v1/blobs/1",)"
                                        R"("expiresAt":"2025-01-02T03:04:05Z","truncated":true,"warnings":["x","y"]})");
}

TEST(ImageRoutes, DecodeAndEncode) {
  const auto pull = decode_pull_image(R"({"uri":" python ","platform":{"os":"linux","arch":"amd64"}})");
  ASSERT_TRUE(pull) << pull.error().message;
  EXPECT_EQ(pull->image.uri, "python");
  EXPECT_EQ(pull->platform->arch, "amd64");
  EXPECT_TRUE(refused(decode_pull_image("{}"), 422, kParameter, "/uri: required"));
  EXPECT_TRUE(refused(decode_pull_image(R"({"uri":" "})"), 422, kParameter, "/uri: must not be blank"));
  EXPECT_TRUE(refused(decode_pull_image(R"({"uri":"a","auth":{}})"), 422, kParameter, "/auth/username: required"));
  const StoredImage host{"host", "", {}, {}, kTime};
  EXPECT_EQ(encode_image(host), R"({"uri":"host","createdAt":"2025-01-02T03:04:05Z"})");
  EXPECT_EQ(encode_image({"host", "", {}, {}, {}}), R"({"uri":"host"})");
  const StoredImage full{"a", "sha256:0f", Platform{"linux", "arm64"}, 7, kTime};
  const StoredImage items[] = {host, full};
  EXPECT_EQ(encode_image_list(items),
            R"({"items":[{"uri":"host","createdAt":"2025-01-02T03:04:05Z"},{"uri":"a","digest":"sha256:0f",)"
            R"("platform":{"os":"linux","arch":"arm64"},"sizeBytes":7,"createdAt":"2025-01-02T03:04:05Z"}]})");
  EXPECT_EQ(
      encode_pull_progress(1, {"download", "sha256:aa", 5, 10}),
      R"({"type":"progress","timestamp":1,"phase":"download","layer":"sha256:aa","currentBytes":5,"totalBytes":10})");
  EXPECT_EQ(encode_pull_progress(1, {"resolve", "", 0, {}}),
            R"({"type":"progress","timestamp":1,"phase":"resolve","currentBytes":0})");
  EXPECT_EQ(encode_pull_complete(2, host), R"({"type":"complete","timestamp":2,"image":)" + encode_image(host) + "}");
  EXPECT_EQ(encode_pull_error(3, Error(Code::Internal, "m")),
            R"({"type":"error","timestamp":3,"error":{"code":"GENERAL::UNKNOWN_ERROR","message":"m"}})");
}

}  // namespace
}  // namespace osb::api
