#include "controller/pool/choose_pool.h"

#include <boost/json/array.hpp>
#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::controller {
namespace {

json::object parsed(const std::string& text) { return api::parse_json(text).value().as_object(); }

Pool pool(const std::string& name, const std::string& pod_spec, int allocated = 0, int total = 4) {
  return Pool::read(std::make_shared<json::object>(
      json::object{{"metadata", {{"name", name}, {"labels", {{"zone", "a"}, {"size", "8"}}}}},
                   {"spec",
                    {{"template", {{"spec", parsed(pod_spec)}}},
                     {"capacitySpec", {{"bufferMin", 0}, {"bufferMax", 1}, {"poolMin", 0}, {"poolMax", 9}}}}},
                   {"status", {{"allocated", allocated}, {"total", total}}}}));
}

TEST(ChoosePool, FitsTheTemplate) {
  const Pool small = pool("small", R"({"containers":[{"image":"x:1","resources":{"requests":{"cpu":"500m"}}}]})");
  struct {
    const char* why;
    const char* spec;
    bool fits;
  } rows[] = {
      {"the same image", R"({"containers":[{"image":"x:1"}]})", true},
      {"another image", R"({"containers":[{"image":"x:2"}]})", false},
      {"less than the pool has", R"({"containers":[{"image":"x:1","resources":{"requests":{"cpu":"0.5"}}}]})", true},
      {"more than the pool has", R"({"containers":[{"image":"x:1","resources":{"requests":{"cpu":1}}}]})", false},
      {"a resource that it has not", R"({"containers":[{"image":"x:1","resources":{"requests":{"gpu":"1"}}}]})", false},
      {"nonsense", R"({"containers":[{"image":"x:1","resources":{"requests":{"cpu":"lots"}}}]})", false},
      {"node selector", R"({"containers":[{"image":"x:1"}],"nodeSelector":{"zone":"a"}})", true},
      {"other nodes", R"({"containers":[{"image":"x:1"}],"nodeSelector":{"zone":"b"}})", false},
      {"affinity",
       R"({"containers":[{"image":"x:1"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
          {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["b"]}]},
                                {"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]}]}}}})",
       true},
      {"affinity to others",
       R"({"containers":[{"image":"x:1"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
          {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}]}}}})",
       false},
  };
  for (const auto& row : rows) {
    const BatchSandbox wants = BatchSandbox::read(std::make_shared<json::object>(
        json::object{{"spec", {{"poolRef", "*"}, {"template", {{"spec", parsed(row.spec)}}}}}}));
    EXPECT_EQ(choose_pool(wants, {small}), row.fits ? "small" : "") << row.why;
  }
}

TEST(ChoosePool, TheEmptiestPoolWinsThenTheSmallerName) {
  const BatchSandbox any =
      BatchSandbox::read(std::make_shared<json::object>(json::object{{"spec", {{"poolRef", "*"}}}}));
  const char* spec = R"({"containers":[]})";
  EXPECT_EQ(choose_pool(any, {pool("a", spec, 3), pool("b", spec, 1)}), "b");
  EXPECT_EQ(choose_pool(any, {pool("b", spec, 1), pool("a", spec, 1)}), "a");
  EXPECT_EQ(choose_pool(any, {pool("a", spec, 0, 0), pool("b", spec, 4)}), "a") << "both have nothing free";
  EXPECT_EQ(choose_pool(any, {}), "");
}

}  // namespace
}  // namespace osb::controller
