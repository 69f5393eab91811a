#include "api/lifecycle_sandbox.h"

#include "api/lifecycle_error.h"
#include "api/lifecycle_snapshot.h"
#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using testing::kParameter;
using testing::refused;

const Timestamp kTime = *parse_timestamp("2025-01-02T03:04:05.120000Z");

struct Example {
  CreateSandbox spec;
  Status status{"Running", "CONTAINER_RUNNING", "It \"runs\".", kTime};
  StringMap metadata{{"team", "a"}};
  SandboxView view() const { return {"id-1", &spec, &status, &metadata, kTime, kTime}; }
};

TEST(SandboxResponse, ShowsWhatHasAValueAndNothingElse) {
  Example example;
  example.spec.image = ImageSpec{"python:3.12", ImageLogin{"me", "hunter2"}};
  example.spec.platform = Platform{"linux", "amd64"};
  example.spec.entrypoint = {"tail", "-f"};
  EXPECT_EQ(encode_sandbox(example.view()),
            R"({"id":"id-1","image":{"uri":"python:3.12"},"platform":{"os":"linux","arch":"amd64"},)"
            R"("status":{"state":"Running","reason":"CONTAINER_RUNNING","message":"It \"runs\".",)"
            R"("lastTransitionAt":"2025-01-02T03:04:05.120000Z"},"metadata":{"team":"a"},"entrypoint":["tail","-f"],)"
            R"("expiresAt":"2025-01-02T03:04:05.120000Z","createdAt":"2025-01-02T03:04:05.120000Z"})");
  example.spec.extensions = {{"opensandbox.extensions.team", "x"}, {"poolRef", ""}, {"opensandbox.extension", "no"}};
  EXPECT_NE(encode_sandbox(example.view()).find(R"(],"extensions":{"opensandbox.extensions.team":"x"},"expiresAt")"),
            std::string::npos);
  const std::string created = encode_created(example.view());
  EXPECT_EQ(created.find("image"), std::string::npos);
  EXPECT_EQ(created.find("hunter2"), std::string::npos);

  Example bare;
  bare.status = {"Pending", "", "", {}};
  bare.spec.snapshot_id = "snap";
  bare.spec.image = ImageSpec{"hidden", {}};
  SandboxView view = bare.view();
  view.metadata = nullptr;
  view.expires_at.reset();
  EXPECT_EQ(encode_sandbox(view), R"({"id":"id-1","snapshotId":"snap","status":{"state":"Pending"},"entrypoint":[],)"
                                  R"("createdAt":"2025-01-02T03:04:05.120000Z"})");
  view.pool = "fast";
  EXPECT_NE(encode_sandbox(view).find(R"("allocation":{"mode":"pool","poolRef":"fast","state":"allocated"},)"),
            std::string::npos);
  const StringMap empty;
  view.metadata = &empty;
  EXPECT_NE(encode_created(view).find(R"("metadata":{},)"), std::string::npos);
}

TEST(SandboxResponse, ListsAndEventsHoldTheSameObjects) {
  Example example;
  const SandboxView items[] = {example.view(), example.view()};
  const std::string one = encode_sandbox(example.view());
  EXPECT_EQ(encode_sandbox_list(items, {1, 20, 2}),
            R"({"items":[)" + one + "," + one +
                R"(],"pagination":{"page":1,"pageSize":20,"totalItems":2,"totalPages":1,"hasNextPage":false}})");
  EXPECT_EQ(encode_sandbox_list({}, {}).substr(0, 12), R"({"items":[],)");
  EXPECT_EQ(encode_state_event(7, example.view()), R"({"type":"state","timestamp":7,"sandbox":)" + one + "}");
  EXPECT_EQ(encode_deleted_event(8), R"({"type":"deleted","timestamp":8})");
  EXPECT_EQ(encode_ping_event(9), R"({"type":"ping","timestamp":9})");
}

TEST(RenewRequest, TakesWhatTheClientsSend) {
  const struct {
    const char* body;
    const char* want;
  } rows[] = {
      {R"({"expiresAt":"2025-10-09T10:00:00.123456+00:00"})", "2025-10-09T10:00:00.123456Z"},
      {R"({"expiresAt":"2025-10-09T10:00:00.123Z"})", "2025-10-09T10:00:00.123000Z"},
      {R"({"expiresAt":"2025-10-09T10:00:00.123456789Z"})", "2025-10-09T10:00:00.123456Z"},
      {R"({"expiresAt":"2025-10-09T12:00:00.1234567+02:00"})", "2025-10-09T10:00:00.123456Z"},
      {R"({"expires_at":"2025-10-09 10:00:00"})", "2025-10-09T10:00:00Z"},
      {R"({"expiresAt":1760004000})", "2025-10-09T10:00:00Z"},
      {R"({"expiresAt":"1760004000"})", "2025-10-09T10:00:00Z"},
      {R"({"expiresAt":1760004000000})", "2025-10-09T10:00:00Z"},
      {R"({"expiresAt":1760004000.5})", "2025-10-09T10:00:00.500000Z"},
  };
  for (const auto& row : rows) {
    const auto got = decode_renew(row.body);
    ASSERT_TRUE(got) << row.body << ": " << got.error().message;
    EXPECT_EQ(encode_renewed(*got), R"({"expiresAt":")" + std::string(row.want) + "\"}");
  }
  for (const char* bad : {"{}", R"({"expiresAt":null})", R"({"expiresAt":"soon"})", R"({"expiresAt":true})",
                          R"({"expiresAt":"2025-02-30T00:00:00Z"})", R"({"expiresAt":18446744073709551615})",
                          R"({"expiresAt":"9999-12-31T23:59:59-01:00"})"}) {
    EXPECT_TRUE(refused(decode_renew(bad), 422, kParameter, "/expiresAt: ")) << bad;
  }
  EXPECT_TRUE(refused(decode_renew("[]"), 422, kParameter, "body: expected an object"));
}

TEST(RenewRules, TheTimeMustBeInTheFuture) {
  EXPECT_TRUE(check_renew(kTime + std::chrono::microseconds(1), kTime, "NATIVE"));
  EXPECT_TRUE(
      refused(check_renew(kTime, kTime, "NATIVE"), 400, "NATIVE::INVALID_EXPIRATION", "/expiresAt: 2025-01-02"));
  EXPECT_TRUE(refused(check_renew(kTime, kTime, "DOCKER"), 400, "DOCKER::INVALID_EXPIRATION", "/expiresAt: "));
}

TEST(MetricsEventRequest, TakesWhatTheClientSends) {
  const auto got = decode_metrics_event(
      R"({"eventType":"sandbox.create","sandboxId":"s","image":"i","createDurationMs":12.5,"success":true})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->create_duration_ms, 12.5);
  EXPECT_TRUE(got->success);
  const std::pair<const char*, const char*> rows[] = {
      {R"({"createDurationMs":1,"success":true})", "/eventType: required"},
      {R"({"eventType":"e","success":true})", "/createDurationMs: expected a number"},
      {R"({"eventType":"e","createDurationMs":-1,"success":true})", "/createDurationMs: must not be negative"},
      {R"({"eventType":"e","createDurationMs":1})", "/success: required"},
  };
  for (const auto& [body, message] : rows) {
    EXPECT_TRUE(refused(decode_metrics_event(body), 422, kParameter, message)) << body;
  }
}

TEST(SnapshotRequest, TheBodyIsOptional) {
  for (const char* body : {"", "  ", "null", "{}", R"({"name":null,"x":1})"}) {
    const auto got = decode_create_snapshot(body);
    ASSERT_TRUE(got) << body;
    EXPECT_EQ(got->name, "");
  }
  EXPECT_EQ(decode_create_snapshot(R"({"name":"n"})")->name, "n");
  EXPECT_TRUE(refused(decode_create_snapshot(R"({"name":""})"), 422, kParameter, "/name: must not be empty"));
  EXPECT_TRUE(refused(decode_create_snapshot(R"({"name":1})"), 422, kParameter, "/name: expected a string"));
  EXPECT_TRUE(refused(decode_create_snapshot("[]"), 422, kParameter, "body: expected an object"));
}

TEST(SnapshotResponse, ShowsWhatHasAValueAndNothingElse) {
  const Status status{"Ready", "snapshot_runtime_ready", "", kTime};
  const SnapshotView named{"s", "box", "n", &status, kTime};
  EXPECT_EQ(encode_snapshot(named),
            R"({"id":"s","sandboxId":"box","name":"n","status":{"state":"Ready","reason":"snapshot_runtime_ready",)"
            R"("lastTransitionAt":"2025-01-02T03:04:05.120000Z"},"createdAt":"2025-01-02T03:04:05.120000Z"})");
  const SnapshotView plain{"s", "box", "", &status, kTime};
  EXPECT_EQ(encode_snapshot(plain).find("name"), std::string::npos);
  const SnapshotView items[] = {named};
  EXPECT_EQ(encode_snapshot_list(items, {1, 20, 1}).find(R"({"items":[{"id":"s",)"), 0u);
}

TEST(ErrorResponse, HasCodeAndMessageAlways) {
  EXPECT_EQ(encode_error(Error()), R"({"code":"GENERAL::UNKNOWN_ERROR","message":"The server could not do this."})");
  EXPECT_EQ(encode_error(refuse(Code::NotFound, "NATIVE::SANDBOX_NOT_FOUND", "no such sandbox").error()),
            R"({"code":"NATIVE::SANDBOX_NOT_FOUND","message":"no such sandbox"})");
  EXPECT_EQ(backend_reason("NATIVE", "X"), "NATIVE::X");
}

TEST(ErrorResponse, A422PointsAtThePlace) {
  const struct {
    const char* where;
    const char* loc;
  } rows[] = {
      {"/volumes/0/name", R"(["body","volumes",0,"name"])"}, {"body", R"(["body"])"},
      {"query/pageSize", R"(["query","pageSize"])"},         {"path/port", R"(["path","port"])"},
      {"/metadata/a~1b~0", R"(["body","metadata","a/b~"])"}, {"/007", R"(["body",7])"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(encode_error(unprocessable(row.where, "why").error()),
              R"({"code":"SANDBOX::INVALID_PARAMETER","message":")" + std::string(row.where) +
                  R"(: why","detail":[{"type":"value_error","loc":)" + row.loc + R"(,"msg":"why"}]})");
  }
  Error odd(Code::Unprocessable, "no place");
  EXPECT_NE(encode_error(odd).find(R"("loc":["body"],"msg":"no place")"), std::string::npos);
}

}  // namespace
}  // namespace osb::api
