#include "execd/code/jupyter/jupyter_message.h"

#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::execd::jupyter {
namespace {

TEST(JupyterMessage, KernelOfALanguageIsChosenAndPython3Never) {
  const auto specs = decode_kernel_specs(R"({"default":"python3","kernelspecs":{
      "python3":{"name":"python3","spec":{"language":"python"}},
      "bash":{"name":"bash","spec":{"language":"bash","argv":["x"]}},
      "jslab":{"name":"jslab","spec":{"language":"javascript"}}}})");
  ASSERT_TRUE(specs) << specs.error().message;
  EXPECT_EQ(choose_kernel(*specs, "javascript"), "jslab");
  EXPECT_EQ(choose_kernel(*specs, "python"), "");
  EXPECT_EQ(languages_of(*specs), "bash, javascript");
  EXPECT_EQ(languages_of({}), "none");
}

TEST(JupyterMessage, SessionRequestNamesANotebookInTheDirectory) {
  EXPECT_EQ(encode_session_request("python", "", "00ff"),
            R"({"path":"00ff.ipynb","name":"00ff","type":"notebook","kernel":{"name":"python"}})");
  EXPECT_EQ(encode_session_request("python", "/a \"b\"", "00ff"),
            R"({"path":"/a \"b\"/00ff.ipynb","name":"00ff","type":"notebook","kernel":{"name":"python"}})");
}

TEST(JupyterMessage, SessionNeedsTwoIdsThatFitAPath) {
  const auto session = decode_session(R"({"id":"a-1","name":"x","kernel":{"id":"b_2","name":"python"}})");
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->id, "a-1");
  EXPECT_EQ(session->kernel_id, "b_2");
  for (const char* bad : {"{}", R"({"id":"a"})", R"({"id":"a/b","kernel":{"id":"c"}})", R"({"id":"a","kernel":5})",
                          R"({"id":"a","kernel":{"id":"?x"}})", "[", "null"}) {
    EXPECT_FALSE(decode_session(bad)) << bad;
  }
}

TEST(JupyterMessage, MessagesOfAKernel) {
  using Type = Message::Type;
  const auto stream = decode_message(
      R"({"header":{"msg_type":"stream"},"parent_header":{"msg_id":"c-1"},"content":{"name":"stderr","text":"hi\n"}})");
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->type, Type::Stream);
  EXPECT_TRUE(stream->is_stderr);
  EXPECT_EQ(stream->text, "hi\n");
  EXPECT_EQ(stream->parent_id, "c-1");

  const auto result = decode_message(R"({"header":{"msg_type":"execute_result"},"parent_header":{"msg_id":"c-1"},
      "content":{"execution_count":3,"data":{"text/plain":"4","application/json":{"a":1},"gone":null}}})");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->type, Type::Result);
  EXPECT_EQ(result->count, 3U);
  EXPECT_EQ(result->data,
            (std::map<std::string, std::string>{{"text/plain", "4"}, {"application/json", R"({"a":1})"}}));

  const auto reply = decode_message(R"({"header":{"msg_type":"execute_reply"},"parent_header":{"msg_id":"c-1"},
      "content":{"status":"aborted","execution_count":null}})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->type, Type::Reply);
  EXPECT_EQ(reply->text, "aborted");

  const auto comm = decode_message(R"({"header":{"msg_type":"comm_open"},"content":{"data":5}})");
  ASSERT_TRUE(comm);
  EXPECT_EQ(comm->type, Type::Other);
  EXPECT_FALSE(decode_message(R"({"header":{"msg_type":"stream"},"content":{"text":5}})"));
  EXPECT_FALSE(decode_message("{"));
}

TEST(JupyterMessage, ExecuteRequestIsAsTheContractHasIt) {
  const auto value = api::parse_json(encode_execute_request("c-7", "c", "print(\"\xc3\xa9\")\n"));
  ASSERT_TRUE(value);
  const auto& message = value->get_object();
  EXPECT_EQ(message.at("channel").as_string(), "shell");
  const auto& header = message.at("header").get_object();
  EXPECT_EQ(header.at("msg_id").as_string(), "c-7");
  EXPECT_EQ(header.at("session").as_string(), "c");
  EXPECT_EQ(header.at("msg_type").as_string(), "execute_request");
  EXPECT_EQ(header.at("version").as_string(), "5.3");
  const auto& content = message.at("content").get_object();
  EXPECT_EQ(content.at("code").as_string(), "print(\"\xc3\xa9\")\n");
  EXPECT_FALSE(content.at("silent").as_bool());
  EXPECT_TRUE(content.at("store_history").as_bool());
  EXPECT_FALSE(content.at("allow_stdin").as_bool());
  EXPECT_TRUE(content.at("stop_on_error").as_bool());
}

}  // namespace
}  // namespace osb::execd::jupyter
