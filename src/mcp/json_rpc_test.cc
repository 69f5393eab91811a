#include "mcp/json_rpc.h"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

const Message* message_of(const Payload& payload) { return std::get_if<Message>(&payload.messages.front()); }
const Malformed* malformed_of(const Payload& payload) { return std::get_if<Malformed>(&payload.messages.front()); }

TEST(JsonRpc, TellsRequestsNotificationsAndResponsesApart) {
  using Kind = Message::Kind;
  struct {
    const char* text;
    Kind kind;
  } rows[] = {
      {R"({"jsonrpc":"2.0","id":1,"method":"ping"})", Kind::Request},
      {R"({"jsonrpc":"2.0","id":"a","method":"ping","params":{}})", Kind::Request},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"ping","params":null})", Kind::Request},
      {R"({"jsonrpc":"2.0","method":"notifications/initialized"})", Kind::Notification},
      {R"({"jsonrpc":"2.0","id":1,"result":{}})", Kind::Response},
      {R"({"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}})", Kind::Response},
  };
  for (const auto& row : rows) {
    const Payload payload = decode_payload(row.text);
    ASSERT_NE(message_of(payload), nullptr) << row.text;
    EXPECT_EQ(message_of(payload)->kind, row.kind) << row.text;
    EXPECT_FALSE(payload.batch);
  }
}

TEST(JsonRpc, ErrorsAreAnsweredWithTheIdIfThereIsOne) {
  struct {
    const char* text;
    int code;
    json::value id;
  } rows[] = {
      {"", rpc::kParseError, nullptr},
      {"{", rpc::kParseError, nullptr},
      {"7", rpc::kInvalidRequest, nullptr},
      {R"({"id":1,"method":"ping"})", rpc::kInvalidRequest, 1},
      {R"({"jsonrpc":"1.0","id":"x","method":"ping"})", rpc::kInvalidRequest, "x"},
      {R"({"jsonrpc":"2.0","id":1})", rpc::kInvalidRequest, 1},
      {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", rpc::kInvalidRequest, nullptr},
      {R"({"jsonrpc":"2.0","id":true,"method":"ping"})", rpc::kInvalidRequest, nullptr},
      {R"({"jsonrpc":"2.0","id":1,"method":{}})", rpc::kInvalidRequest, 1},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})", rpc::kInvalidParams, 1},
  };
  for (const auto& row : rows) {
    const Payload payload = decode_payload(row.text);
    ASSERT_NE(malformed_of(payload), nullptr) << row.text;
    EXPECT_EQ(malformed_of(payload)->error.code, row.code) << row.text;
    EXPECT_EQ(malformed_of(payload)->id, row.id) << row.text;
    EXPECT_EQ(answers_wanted(payload), 1U);
  }
}

TEST(JsonRpc, DeepNestingIsAParseErrorAndNoCrash) {
  const Payload payload = decode_payload(std::string(1'000'000, '['));
  ASSERT_NE(malformed_of(payload), nullptr);
  EXPECT_EQ(malformed_of(payload)->error.code, rpc::kParseError);
}

TEST(JsonRpc, ABatchKeepsItsOrderAndItsMistakes) {
  const Payload payload = decode_payload(
      R"([{"jsonrpc":"2.0","id":1,"method":"a"},7,{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"method":"c"}])");
  EXPECT_TRUE(payload.batch);
  ASSERT_EQ(payload.messages.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<Malformed>(payload.messages[1]));
  EXPECT_EQ(answers_wanted(payload), 3U);
  EXPECT_EQ(answers_wanted(decode_payload("[]")), 1U);
}

TEST(JsonRpc, EncodesOnOneLine) {
  EXPECT_EQ(encode_result(1, {{"text", "a\nb"}}), R"({"jsonrpc":"2.0","id":1,"result":{"text":"a\nb"}})");
  EXPECT_EQ(encode_error("x", {rpc::kBusy, "later", nullptr}),
            R"({"jsonrpc":"2.0","id":"x","error":{"code":-32000,"message":"later"}})");
  EXPECT_EQ(encode_notification("n", {}), R"({"jsonrpc":"2.0","method":"n","params":{}})");
}

TEST(JsonRpc, PrettyPrintsAsPeopleReadIt) {
  const json::value value = {{"a", json::array{1, "x"}}, {"b", json::object()}, {"c", json::array()}, {"d", nullptr}};
  EXPECT_EQ(pretty(value), "{\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"b\": {},\n  \"c\": [],\n  \"d\": null\n}");
}

TEST(JsonText, NumbersHaveNoExponents) {
  const json::value value =
      json::object{{"a", 1.0}, {"b", 99.97}, {"c", 2048.0}, {"d", 0.5}, {"e", json::array{1, -2.25}}};
  EXPECT_EQ(compact(value), R"({"a":1,"b":99.97,"c":2048,"d":0.5,"e":[1,-2.25]})");
  EXPECT_EQ(pretty(json::object{{"a", 1.5}, {"b", json::object()}}), "{\n  \"a\": 1.5,\n  \"b\": {}\n}");
  EXPECT_EQ(json::parse(compact(json::value(1e300))), json::value(1e300));
  EXPECT_EQ(compact(json::object{{"text", "a\n\"b\""}}), R"({"text":"a\n\"b\""})");
}

}  // namespace
}  // namespace osb::mcp
