#include "kubernetes/patch.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace osb::kubernetes {
namespace {

namespace json = boost::json;

std::string merged(std::string_view target, std::string_view patch) {
  json::value value = json::parse(target);
  merge_patch(value, json::parse(patch));
  return json::serialize(value);
}

std::string strategic(std::string_view target, std::string_view patch) {
  json::object object = json::parse(target).as_object();
  const auto done = strategic_merge_patch(object, json::parse(patch).as_object());
  return done ? json::serialize(object) : "error: " + done.error().message;
}

TEST(KubernetesPatchTest, MergePatchFollowsItsRfc) {
  struct {
    const char *target, *patch, *want;
  } rows[] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
  };
  for (const auto& row : rows) EXPECT_EQ(merged(row.target, row.patch), row.want) << row.target << " + " << row.patch;
}

TEST(KubernetesPatchTest, StrategicPatchMergesListsByTheirKey) {
  struct {
    const char *why, *target, *patch, *want;
  } rows[] = {
      {"an element is found by its name", R"({"containers":[{"name":"a","image":"1"},{"name":"b"}]})",
       R"({"containers":[{"name":"a","image":"2"},{"name":"c"}]})",
       R"({"containers":[{"name":"a","image":"2"},{"name":"b"},{"name":"c"}]})"},
      {"lists without a key are replaced", R"({"args":["x","y"]})", R"({"args":["z"]})", R"({"args":["z"]})"},
      {"$patch: delete takes an element away", R"({"env":[{"name":"A"},{"name":"B"}]})",
       R"({"env":[{"$patch":"delete","name":"A"}]})", R"({"env":[{"name":"B"}]})"},
      {"$patch: replace replaces a map", R"({"m":{"a":1,"b":2}})", R"({"m":{"$patch":"replace","c":3}})",
       R"({"m":{"c":3}})"},
      {"$patch: replace replaces a list", R"({"env":[{"name":"A"}]})", R"({"env":[{"name":"B"},{"$patch":"replace"}]})",
       R"({"env":[{"name":"B"}]})"},
      {"finalizers are a set", R"({"finalizers":["a"]})", R"({"finalizers":["b","a"]})", R"({"finalizers":["a","b"]})"},
      {"and lose members by a directive", R"({"finalizers":["a","b"]})",
       R"({"$deleteFromPrimitiveList/finalizers":["a"]})", R"({"finalizers":["b"]})"},
      {"$retainKeys drops the others", R"({"strategy":{"type":"R","rolling":{}}})",
       R"({"strategy":{"$retainKeys":["type"],"type":"S"}})", R"({"strategy":{"type":"S"}})"},
      {"elements stand in the order that was set", R"({"env":[{"name":"A"},{"name":"B"}]})",
       R"({"$setElementOrder/env":[{"name":"B"},{"name":"A"}]})", R"({"env":[{"name":"B"},{"name":"A"}]})"},
      {"mounts are known by their path", R"({"volumeMounts":[{"name":"v","mountPath":"/a"}]})",
       R"({"volumeMounts":[{"name":"v","mountPath":"/b"}]})",
       R"({"volumeMounts":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]})"},
      {"null removes", R"({"a":1,"b":{"c":2}})", R"({"a":null,"b":{"c":null}})", R"({"b":{}})"},
  };
  for (const auto& row : rows) EXPECT_EQ(strategic(row.target, row.patch), row.want) << row.why;
}

TEST(KubernetesPatchTest, APatchThatDoesNotFitIsRefusedWithItsField) {
  EXPECT_EQ(strategic("{}", R"({"spec":{"containers":[{"image":"x"}]}})"), "error: /spec/containers/0: needs a name");
  EXPECT_EQ(strategic("{}", R"({"spec":{"$patch":"x"}})"),
            "error: /spec/$patch: 'x' is none of merge, replace and delete");
  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = R"({"a":)" + deep + "}";
  json::parse_options lax;
  lax.max_depth = 200;
  json::object target;
  EXPECT_FALSE(strategic_merge_patch(target, json::parse(deep, {}, lax).as_object()));
}

TEST(KubernetesPatchTest, ThePatchBetweenTwoObjectsLeadsFromOneToTheOther) {
  const json::object from = json::parse(R"({"a":1,"b":{"c":2,"d":[1]},"e":{"f":1}})").as_object();
  const json::object to = json::parse(R"({"b":{"c":2,"d":[2]},"e":{"f":1},"g":"x"})").as_object();
  const json::object patch = merge_patch_between(from, to);
  EXPECT_EQ(json::serialize(patch), R"({"a":null,"b":{"d":[2]},"g":"x"})");
  json::value result = from;
  merge_patch(result, patch);
  EXPECT_EQ(result, json::value(to));
  EXPECT_TRUE(merge_patch_between(to, to).empty());
}

}  // namespace
}  // namespace osb::kubernetes
