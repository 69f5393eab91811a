#include "kubernetes/object_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::kubernetes {
namespace {

using ::testing::ElementsAre;

ObjectPtr object(const std::string& name, int version, const std::string& node = "n1") {
  return std::make_shared<const json::object>(json::object{
      {"metadata",
       {{"namespace", "d"}, {"name", name}, {"uid", "u-" + name}, {"resourceVersion", std::to_string(version)}}},
      {"node", node}});
}

class ObjectCacheTest : public ::testing::Test {
 protected:
  ObjectCacheTest() {
    cache.add_index("node", [](const json::object& each) { return std::vector{std::string(text(each, {"node"}))}; });
    cache.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      log.push_back(std::string(before ? "1" : "0") + (after ? "1 " : "0 ") + key_of(after ? *after : *before).name);
    });
  }
  std::string version(const std::string& name) {
    const ObjectPtr found = cache.get({"d", name});
    return found ? std::string(version_of(*found)) : "none";
  }
  ObjectCache cache;
  std::vector<std::string> log;
};

TEST_F(ObjectCacheTest, AListReplacesAndTellsOnlyDifferences) {
  cache.replace({object("a", 1), object("b", 2)}, "5");
  cache.replace({object("b", 2), object("c", 6)}, "7");
  EXPECT_THAT(log, ElementsAre("01 a", "01 b", "01 c", "10 a"));
  EXPECT_EQ(cache.version(), "7");
  EXPECT_EQ(cache.list("d").size(), 2u);
  EXPECT_EQ(cache.list("e").size(), 0u);
}

TEST_F(ObjectCacheTest, OlderVersionsNeverReplaceNewerOnes) {
  cache.replace({object("a", 9)}, "10");
  cache.observe(object("a", 12));
  cache.apply(object("a", 11));
  EXPECT_EQ(version("a"), "12") << "an event from before our own write";
  EXPECT_EQ(cache.version(), "11");
  cache.replace({object("a", 11)}, "11");
  EXPECT_EQ(version("a"), "12") << "a list from before it";
  cache.apply(object("a", 12));
  EXPECT_THAT(log, ElementsAre("01 a", "11 a")) << "the event of our own write is no news";
}

TEST_F(ObjectCacheTest, AnAnswerThatComesAfterTheRemovalBringsNothingBack) {
  cache.replace({object("a", 1)}, "1");
  cache.remove(*object("a", 5));
  cache.observe(object("a", 4));
  EXPECT_EQ(version("a"), "none");
}

TEST_F(ObjectCacheTest, AnObjectOfOurOwnSurvivesAListThatIsOlder) {
  cache.replace({}, "5");
  cache.observe(object("mine", 8));
  cache.replace({}, "7");
  EXPECT_EQ(version("mine"), "8");
  cache.replace({}, "9");
  EXPECT_EQ(version("mine"), "none");
}

TEST_F(ObjectCacheTest, AListFromARestoredBackupCounts) {
  cache.replace({object("a", 50), object("b", 60)}, "70");
  cache.replace({object("a", 40)}, "45");
  EXPECT_EQ(version("a"), "40");
  EXPECT_EQ(version("b"), "none");
  EXPECT_EQ(cache.version(), "45");
}

TEST_F(ObjectCacheTest, ARemovalDoesNotTouchASuccessorOfTheSameName) {
  cache.replace({object("a", 1)}, "1");
  cache.forget({"d", "a"}, "u-a");
  EXPECT_EQ(version("a"), "none");
  cache.observe(object("a", 7));
  cache.remove(*object("a", 6));
  EXPECT_EQ(version("a"), "7");
  cache.forget({"d", "a"}, "another uid");
  EXPECT_EQ(version("a"), "7");
}

TEST_F(ObjectCacheTest, IndicesFollowTheObjects) {
  cache.replace({object("a", 1, "n1"), object("b", 2, "n1")}, "2");
  EXPECT_EQ(cache.find("node", "n1").size(), 2u);
  cache.apply(object("a", 3, "n2"));
  EXPECT_EQ(cache.find("node", "n1").size(), 1u);
  ASSERT_EQ(cache.find("node", "n2").size(), 1u);
  EXPECT_EQ(version_of(*cache.find("node", "n2").front()), "3");
  cache.remove(*object("a", 4, "n2"));
  EXPECT_TRUE(cache.find("node", "n2").empty());
  EXPECT_TRUE(cache.find("other", "n2").empty());
}

TEST_F(ObjectCacheTest, BookmarksMoveTheVersionForwardOnly) {
  cache.replace({}, "5");
  cache.progress("9");
  EXPECT_EQ(cache.version(), "9");
  cache.progress("7");
  EXPECT_EQ(cache.version(), "9");
}

}  // namespace
}  // namespace osb::kubernetes
