#include "api/execd_requests.h"

#include <limits>

#include <gtest/gtest.h>

namespace osb::api {
namespace {

using std::chrono::milliseconds;

// Every refusal has the contract's code; the message says where.
template <typename T>
void expect_refused(const Result<T>& got, std::string_view message, std::string_view reason = "INVALID_REQUEST_BODY") {
  ASSERT_FALSE(got) << "wanted: " << message;
  EXPECT_EQ(got.error().message, message);
  EXPECT_EQ(got.error().reason, reason);
  EXPECT_EQ(got.error().code, Code::InvalidRequest);
}

TEST(RunCommandRequest, TakesEveryField) {
  const auto got = decode_run_command(
      R"({"command":"ls","cwd":"/tmp","background":true,"timeout":1500,"uid":1000,"gid":1001,"envs":{"A":"1"},"x":0})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->command, "ls");
  EXPECT_EQ(got->cwd, "/tmp");
  EXPECT_TRUE(got->background);
  EXPECT_EQ(got->timeout, milliseconds(1500));
  EXPECT_EQ(got->uid, 1000u);
  EXPECT_EQ(got->gid, 1001u);
  EXPECT_EQ(got->envs, (EnvMap{{"A", "1"}}));
}

TEST(RunCommandRequest, NullMeansAbsentAndKeysMayHaveAnyCase) {
  const auto got = decode_run_command(
      R"({"Command":"ls","cwd":null,"background":null,"timeout":null,"uid":null,"gid":null,"envs":null,"user":null} x)");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->command, "ls");
  EXPECT_EQ(got->cwd, "");
  EXPECT_FALSE(got->background);
  EXPECT_EQ(got->timeout, milliseconds(0));
  EXPECT_EQ(got->uid, std::nullopt);
  EXPECT_EQ(got->gid, std::nullopt);
  EXPECT_TRUE(got->envs.empty());
}

TEST(RunCommandRequest, NamesWhatIsWrong) {
  struct {
    const char* body;
    const char* message;
  } rows[] = {
      {"", "body: empty, expected JSON"},
      {"[]", "body: expected an object"},
      {"{}", "/command: required, and must not be empty"},
      {R"({"command":""})", "/command: required, and must not be empty"},
      {R"({"command":5})", "/command: expected a string"},
      {R"({"command":"a\u0000b"})", "/command: must not contain a NUL byte"},
      {R"({"command":"a","cwd":"/\u0000"})", "/cwd: must not contain a NUL byte"},
      {R"({"command":"a","background":"true"})", "/background: expected true or false"},
      {R"({"command":"a","timeout":-1})", "/timeout: expected an integer of at least 0"},
      {R"({"command":"a","timeout":"5"})", "/timeout: expected an integer"},
      {R"({"command":"a","timeout":5.0})", "/timeout: expected an integer"},
      {R"({"command":"a","gid":5})", "/gid: needs uid"},
      {R"({"command":"a","uid":-1})", "/uid: expected an integer from 0 to 4294967294"},
      {R"({"command":"a","uid":4294967295})", "/uid: expected an integer from 0 to 4294967294"},
      {R"({"command":"a","uid":0,"user":"me"})", "/user: cannot be combined with uid"},
      {R"({"command":"a","envs":{"A":1}})", "/envs/A: expected a string"},
      {R"({"command":"a","envs":["A=1"]})", "/envs: expected an object of strings"},
      {R"({"command":"a","envs":{"A":"\u0000"}})", "/envs: names and values must not contain a NUL byte"},
  };
  for (const auto& row : rows) expect_refused(decode_run_command(row.body), row.message);
}

TEST(RunCommandRequest, TakesAProgramWithItsArgumentsInsteadOfShellText) {
  const auto got = decode_run_command(R"({"argv":["printf","%s","","a b"],"command":null})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->command, "");
  EXPECT_EQ(got->argv, (std::vector<std::string>{"printf", "%s", "", "a b"}));
  EXPECT_TRUE(decode_run_command(R"({"argv":["ls"],"command":""})"));
  EXPECT_TRUE(decode_run_command(R"({"argv":null,"command":"ls"})")->argv.empty());

  struct {
    const char* body;
    const char* message;
  } rows[] = {
      {R"({"argv":[]})", "/argv: the program must not be empty"},
      {R"({"argv":["","x"]})", "/argv: the program must not be empty"},
      {R"({"argv":["a"],"command":"a"})", "/argv: cannot be combined with command"},
      {R"({"argv":["a","b\u0000c"]})", "/argv: must not contain a NUL byte"},
      {R"({"argv":"ls"})", "/argv: expected an array of strings"},
      {R"({"argv":["a",1]})", "/argv/1: expected a string"},
  };
  for (const auto& row : rows) expect_refused(decode_run_command(row.body), row.message);
}

TEST(RunCommandRequest, AnEndlessTimeoutIsCutSoThatDeadlinesFit) {
  const auto got = decode_run_command(R"({"command":"a","timeout":9223372036854775807})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->timeout, kLongestTimeout);
  EXPECT_GT(std::chrono::steady_clock::now() + std::chrono::nanoseconds(got->timeout),
            std::chrono::steady_clock::now());
}

TEST(SessionRequests, CreateAcceptsNothingAtAll) {
  for (const char* body : {"", " \n", "null", "{}", R"({"cwd":null})"}) {
    const auto got = decode_create_session(body);
    ASSERT_TRUE(got) << body;
    EXPECT_EQ(got->cwd, "") << body;
  }
  EXPECT_EQ(decode_create_session(R"({"cwd":"/w"})")->cwd, "/w");
  expect_refused(decode_create_session(R"({"cwd":1})"), "/cwd: expected a string");
  expect_refused(decode_create_session("[]"), "body: expected an object");
  EXPECT_FALSE(decode_create_session("{"));
}

TEST(SessionRequests, RunNeedsACommand) {
  const auto got = decode_run_in_session(R"({"command":"pwd","cwd":"/","timeout":7})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->command, "pwd");
  EXPECT_EQ(got->cwd, "/");
  EXPECT_EQ(got->timeout, milliseconds(7));
  expect_refused(decode_run_in_session("{}"), "/command: required, and must not be empty");
  expect_refused(decode_run_in_session("null"), "body: expected an object");
  expect_refused(decode_run_in_session(R"({"command":"a","timeout":-5})"),
                 "/timeout: expected an integer of at least 0");
}

TEST(PtyRequests, CreateAcceptsNothingAtAll) {
  EXPECT_TRUE(decode_create_pty(""));
  const auto got = decode_create_pty(R"({"cwd":"/w","command":"top"})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->cwd, "/w");
  EXPECT_EQ(got->command, "top");
}

TEST(PtyRequests, FramesCarryWhatTheirTypeNeeds) {
  EXPECT_EQ(decode_pty_frame(R"({"type":"stdin","data":"a\u0000b"})")->data, std::string("a\0b", 3));
  EXPECT_EQ(decode_pty_frame(R"({"type":"signal","signal":"SIGINT"})")->signal, "SIGINT");
  const auto resize = decode_pty_frame(R"({"type":"resize","cols":120,"rows":40})");
  ASSERT_TRUE(resize);
  EXPECT_EQ(resize->cols, 120);
  EXPECT_EQ(resize->rows, 40);
  EXPECT_EQ(decode_pty_frame(R"({"type":"dance"})")->type, "dance");
  EXPECT_FALSE(decode_pty_frame(R"({"type":"resize","cols":65536})"));
  EXPECT_FALSE(decode_pty_frame("ls\n"));
}

TEST(FileRequests, PermissionsKeepTheOrderOfTheText) {
  const auto got = decode_path_permissions(
      R"({"/b":{"mode":755,"owner":"root","group":"adm"},"/a":{"mode":null,"owner":null,"group":null},"/c":{}})");
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), 3u);
  EXPECT_EQ(got->at(0).path, "/b");
  EXPECT_EQ(got->at(0).permission.mode, 755);
  EXPECT_EQ(got->at(0).permission.owner, "root");
  EXPECT_EQ(got->at(0).permission.group, "adm");
  EXPECT_EQ(got->at(1).path, "/a");
  EXPECT_EQ(got->at(1).permission.mode, 0);
  EXPECT_EQ(got->at(1).permission.owner, "");
  EXPECT_TRUE(decode_path_permissions("{}")->empty());
  expect_refused(decode_path_permissions(R"({"/a/b":{"mode":"755"}})"), "/~1a~1b/mode: expected an integer");
  expect_refused(decode_path_permissions(R"({"/a":5})"), "/~1a: expected an object");
  expect_refused(decode_path_permissions(R"({"":{}})"), "/: the path must not be empty");
  expect_refused(decode_path_permissions(R"({"a\u0000":{}})"), "/a\\u0000: the path must not contain a NUL byte");
}

TEST(FileRequests, ModeDigitsSpellOctal) {
  EXPECT_EQ(permission_bits(0).value(), std::nullopt);
  EXPECT_EQ(permission_bits(755).value(), 0755u);
  EXPECT_EQ(permission_bits(7).value(), 07u);
  EXPECT_EQ(permission_bits(4755).value(), 0755u) << "only rwx applies";
  for (const std::int64_t mode : {std::int64_t{758}, std::int64_t{9}, std::int64_t{-755},
                                  std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    const auto got = permission_bits(mode);
    ASSERT_FALSE(got) << mode;
    EXPECT_EQ(got.error().reason, "RUNTIME_ERROR");
    EXPECT_EQ(got.error().code, Code::Internal);
  }
}

TEST(FileRequests, MovesAreAnArrayInOrder) {
  const auto got = decode_moves(R"([{"src":"/a","dest":"/b"},{"src":"/c","dest":"/d"}])");
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), 2u);
  EXPECT_EQ(got->at(1).src, "/c");
  EXPECT_EQ(got->at(1).dest, "/d");
  EXPECT_TRUE(decode_moves("[]")->empty());
  expect_refused(decode_moves("{}"), "body: expected an array of objects");
  expect_refused(decode_moves(R"([{"src":"/a","dest":"/b"},{"src":"/c"}])"),
                 "/1/dest: required, and must not be empty");
  expect_refused(decode_moves("[null]"), "/0: expected an object");
}

TEST(FileRequests, ReplaceNeedsSomethingToReplace) {
  const auto got = decode_replacements(R"({"/a":{"old":"x","new":"y"},"/b":{"old":"z"}})");
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), 2u);
  EXPECT_EQ(got->at(0).old_text, "x");
  EXPECT_EQ(got->at(0).new_text, "y");
  EXPECT_EQ(got->at(1).new_text, "");
  expect_refused(decode_replacements(R"({"/a":{"old":"","new":"y"}})"), "/~1a/old: required, and must not be empty");
}

TEST(FileRequests, UploadMetadataHasItsOwnCode) {
  const auto got = decode_upload_metadata(R"({"path":"/a","owner":null,"group":"g","mode":644})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->path, "/a");
  EXPECT_EQ(got->permission.group, "g");
  EXPECT_EQ(got->permission.mode, 644);
  expect_refused(decode_upload_metadata("{}"), "/path: required, and must not be empty", "INVALID_FILE_METADATA");
  expect_refused(decode_upload_metadata(""), "body: empty, expected JSON", "INVALID_FILE_METADATA");
}

TEST(CodeRequests, RunTakesAnOptionalContext) {
  const auto got = decode_run_code(R"({"code":"1+1","context":{"id":"c","language":"python"}})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->code, "1+1");
  EXPECT_EQ(got->context_id, "c");
  EXPECT_EQ(got->language, "python");
  EXPECT_EQ(decode_run_code(R"({"code":"x","context":null})")->language, "");
  expect_refused(decode_run_code("{}"), "/code: required, and must not be empty");
  expect_refused(decode_run_code(R"({"code":"x","context":"c"})"), "/context: expected an object");
  expect_refused(decode_run_code(R"({"code":"x","context":{"id":1}})"), "/context/id: expected a string");
}

TEST(CodeRequests, ContextHasALanguageAndADirectory) {
  const auto got = decode_create_code_context(R"({"language":"go","cwd":"/w"})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->language, "go");
  EXPECT_EQ(got->cwd, "/w");
  expect_refused(decode_create_code_context(""), "body: empty, expected JSON");
}

}  // namespace
}  // namespace osb::api
