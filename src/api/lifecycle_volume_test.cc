#include "api/lifecycle_volume.h"

#include "api/lifecycle_create.h"
#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using testing::kParameter;
using testing::refused;

std::string volumes(std::string_view list) {
  return R"({"image":{"uri":"a"},"entrypoint":["x"],"resourceLimits":{},"volumes":[)" + std::string(list) + "]}";
}
std::string host(std::string_view path) {
  return R"({"name":"a","mountPath":"/x","host":{"path":")" + std::string(path) + R"("}})";
}
std::string pvc(std::string_view fields) {
  return R"({"name":"a","mountPath":"/x","pvc":{)" + std::string(fields) + "}}";
}
std::string ossfs(std::string_view fields) {
  return R"({"name":"a","mountPath":"/x","ossfs":{"bucket":"abc","endpoint":"e","accessKeyId":"i","accessKeySecret":"s")" +
         std::string(fields) + "}}";
}

TEST(VolumeRequest, ErrorsAgainstTheSchemaAre422) {
  const struct {
    std::string list, message;
  } rows[] = {
      {"1", "/volumes/0: expected an object"},
      {R"({"mountPath":"/x","host":{"path":"/a"}})", "/volumes/0/name: required"},
      {R"({"name":"A","mountPath":"/x","host":{"path":"/a"}})", "/volumes/0/name: must have at most 63"},
      {R"({"name":"-a","mountPath":"/x","host":{"path":"/a"}})", "/volumes/0/name: must have at most 63"},
      {R"({"name":"a\n","mountPath":"/x","host":{"path":"/a"}})", "/volumes/0/name: must have at most 63"},
      {R"({"name":")" + std::string(64, 'a') + R"(","mountPath":"/x","host":{"path":"/a"}})", "/volumes/0/name: must"},
      {R"({"name":"a","host":{"path":"/a"}})", "/volumes/0/mountPath: required"},
      {R"({"name":"a","mountPath":"x","host":{"path":"/a"}})", "/volumes/0/mountPath: must start with '/'"},
      {R"({"name":"a","mountPath":"/x\u0000","host":{"path":"/a"}})", "/volumes/0/mountPath: must not contain a NUL"},
      {R"({"name":"a","mountPath":"/x","subPath":"a\u0000","host":{"path":"/a"}})", "/volumes/0/subPath: must not"},
      {R"({"name":"a","mountPath":"/x"})", "/volumes/0: exactly one of host, pvc and ossfs"},
      {R"({"name":"a","mountPath":"/x","host":{"path":"/a"},"pvc":{"claimName":"c"}})", "/volumes/0: exactly one of"},
      {host("a"), "/volumes/0/host/path: must be absolute"},
      {host(""), "/volumes/0/host/path: required"},
      {host("C:a"), "/volumes/0/host/path: must be absolute"},
      {host("/a\\u0000"), "/volumes/0/host/path: must not contain a NUL"},
      {pvc(""), "/volumes/0/pvc/claimName: required"},
      {pvc(R"("claimName":"A")"), "/volumes/0/pvc/claimName: must have at most 253"},
      {pvc(R"("claimName":"a","storage":"1GB")"), "/volumes/0/pvc/storage: expected a number"},
      {pvc(R"("claimName":"a","storage":"1.")"), "/volumes/0/pvc/storage: expected a number"},
      {pvc(R"("claimName":"a","accessModes":"x")"), "/volumes/0/pvc/accessModes: expected an array"},
      {ossfs(R"(,"bucket":"ab")"), "/volumes/0/ossfs/bucket: must have 3 to 63"},
      {ossfs(R"(,"endpoint":"")"), "/volumes/0/ossfs/endpoint: required"},
      {ossfs(R"(,"version":"3.0")"), "/volumes/0/ossfs/version: must be 1.0 or 2.0"},
      {ossfs(R"(,"accessKeyId":null)"), "/volumes/0/ossfs/accessKeyId: required"},
      {ossfs(R"(,"accessKeySecret":"")"), "/volumes/0/ossfs/accessKeySecret: required"},
      {host("/a") + ",{}", "/volumes/1/name: required"},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(refused(decode_create_sandbox(volumes(row.list)), 422, kParameter, row.message)) << row.list;
  }
}

TEST(VolumeRules, EachHasItsCode) {
  const std::vector<std::string> allowed = {"/srv", "C:\\data"};
  const struct {
    std::string list, reason, message;
  } rows[] = {
      {host("/srv") + "," + host("/srv"), "VOLUME::DUPLICATE_NAME", "/volumes/1/name: a is used twice"},
      {R"({"name":"a","mountPath":"/x","subPath":"/abs","host":{"path":"/srv"}})", "VOLUME::INVALID_SUB_PATH",
       "/volumes/0/subPath"},
      {R"({"name":"a","mountPath":"/x","subPath":"a/../b","host":{"path":"/srv"}})", "VOLUME::INVALID_SUB_PATH",
       "/volumes/0/subPath"},
      {R"({"name":"a","mountPath":"/x","subPath":"..","pvc":{"claimName":"c"}})", "VOLUME::INVALID_SUB_PATH",
       "/volumes/0/subPath"},
      {R"({"name":"a","mountPath":"/x","subPath":"a\\..\\b","pvc":{"claimName":"c"}})", "VOLUME::INVALID_SUB_PATH",
       "/volumes/0/subPath"},
      {host("/srv/../etc"), "VOLUME::INVALID_HOST_PATH", "/volumes/0/host/path"},
      {host("/srv//a"), "VOLUME::INVALID_HOST_PATH", "/volumes/0/host/path"},
      {host("/srv/"), "VOLUME::INVALID_HOST_PATH", "/volumes/0/host/path"},
      {host("C:\\\\data\\\\..\\\\x"), "VOLUME::INVALID_HOST_PATH", "/volumes/0/host/path"},
      {host("/etc"), "VOLUME::HOST_PATH_NOT_ALLOWED", "/volumes/0/host/path"},
      {host("/srvx"), "VOLUME::HOST_PATH_NOT_ALLOWED", "/volumes/0/host/path"},
      {host("/"), "VOLUME::HOST_PATH_NOT_ALLOWED", "/volumes/0/host/path"},
      {host("D:/data"), "VOLUME::HOST_PATH_NOT_ALLOWED", "/volumes/0/host/path"},
      {ossfs(R"(,"options":[" "])"), "VOLUME::INVALID_OSSFS_OPTION", "/volumes/0/ossfs/options"},
      {ossfs(R"(,"options":["ok"," -x"])"), "VOLUME::INVALID_OSSFS_OPTION", "/volumes/0/ossfs/options"},
  };
  for (const auto& row : rows) {
    const auto create = decode_create_sandbox(volumes(row.list));
    ASSERT_TRUE(create) << row.list << create.error().message;
    EXPECT_TRUE(refused(check_volumes(create->volumes, allowed), 400, row.reason, row.message)) << row.list;
  }
}

TEST(VolumeRules, GoodOnesPass) {
  const std::vector<std::string> allowed = {"/srv/", "C:\\data"};
  for (const std::string& list :
       {host("/srv"), host("/srv/a..b/c"), host("c:/data/x"), pvc(R"("claimName":"a","storage":"10")"),
        ossfs(R"(,"options":["allow_other"])"),
        std::string(R"({"name":"a","mountPath":"/x","subPath":"a/b..c","pvc":{"claimName":"c"}})")}) {
    const auto create = decode_create_sandbox(volumes(list));
    ASSERT_TRUE(create) << list << create.error().message;
    const auto ok = check_volumes(create->volumes, allowed);
    EXPECT_TRUE(ok) << ok.error().message;
  }
}

TEST(VolumeRules, AnEmptyListAllowsNothing) {
  EXPECT_FALSE(host_path_allowed("/srv", {}));
  const std::vector<std::string> nothing = {""};
  EXPECT_FALSE(host_path_allowed("/srv", nothing));
  const std::vector<std::string> everything = {"/"};
  EXPECT_TRUE(host_path_allowed("/srv", everything));
}

}  // namespace
}  // namespace osb::api
