// The rules of an API server as this project relies on them. The suite keeps the in-process server honest: with
// OSB_TEST_KUBECONFIG it runs against a real cluster.

#include <set>

#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/api_status.h"
#include "kubernetes/client.h"
#include "kubernetes/testing/cluster_fixture.h"

namespace osb::kubernetes {
namespace {

using ::testing::HasSubstr;
using Type = WatchEvent::Type;

class KubernetesApiTest : public testing::ClusterFixture {
 protected:
  json::object deployment(const std::string& name, int replicas = 0) {
    const json::object labels{{"app", name}};
    return must(client->create(
        resources::kDeployments, ns,
        {{"metadata", {{"name", name}}},
         {"spec",
          {{"replicas", replicas},
           {"paused", true},
           {"selector", {{"matchLabels", labels}}},
           {"template",
            {{"metadata", {{"labels", labels}}},
             {"spec", {{"containers", {{{"name", "a"}, {"image", "x:1"}}, {{"name", "b"}, {"image", "y:1"}}}}}}}}}}}));
  }
  Ref deployment_ref(const std::string& name, std::string subresource = {}) const {
    return {resources::kDeployments, {ns, name}, std::move(subresource)};
  }
  WatchEvent next(Watch& watch) {
    for (;;) {
      auto event = must(watch.next());
      if (!event) throw std::runtime_error("the watch has ended");
      if (event->type != Type::Bookmark) return *event;
    }
  }
};

TEST_F(KubernetesApiTest, AnObjectIsCreatedReadListedAndDeleted) {
  const json::object made = make_map("one", {{"k", "v"}});
  EXPECT_FALSE(uid_of(made).empty());
  EXPECT_FALSE(version_of(made).empty());
  EXPECT_FALSE(text(made, {"metadata", "creationTimestamp"}).empty());
  EXPECT_EQ(key_of(made).to_string(), ns + "/one");
  EXPECT_EQ(text(must(client->get(map_ref("one"))), {"data", "k"}), "v");

  make_map("two", {}, {{"labels", {{"group", "g"}}}});
  const List some = must(client->list(resources::kConfigMaps, ns, {.labels = "group=g"}));
  ASSERT_EQ(some.items.size(), 1u);
  EXPECT_EQ(key_of(*some.items[0]).name, "two");
  EXPECT_EQ(text(*some.items[0], {"kind"}), "ConfigMap");
  const List named = must(client->list(resources::kConfigMaps, ns, {.fields = "metadata.name=one"}));
  ASSERT_EQ(named.items.size(), 1u);

  ASSERT_TRUE(run(client->remove(map_ref("one"))));
  const auto gone = run(client->get(map_ref("one")));
  ASSERT_FALSE(gone);
  EXPECT_TRUE(is_not_found(gone.error()));
  EXPECT_EQ(gone.error().reason, reasons::kNotFound);
  EXPECT_TRUE(is_not_found(run(client->remove(map_ref("one"))).error()));
}

TEST_F(KubernetesApiTest, ANameIsTakenOnceAndANameCanBeGenerated) {
  make_map("one");
  const auto again = run(client->create(resources::kConfigMaps, ns, {{"metadata", {{"name", "one"}}}}));
  ASSERT_FALSE(again);
  EXPECT_TRUE(already_exists(again.error())) << again.error().message;
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) {
    names.insert(
        key_of(must(client->create(resources::kConfigMaps, ns, {{"metadata", {{"generateName", "g-"}}}}))).name);
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_TRUE(names.begin()->starts_with("g-"));
  const auto bad = run(client->create(resources::kConfigMaps, ns, {{"metadata", {{"name", "Not_Valid"}}}}));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().reason, reasons::kInvalid);
}

TEST_F(KubernetesApiTest, AReplaceOfAnOldVersionIsAConflict) {
  json::object first = make_map("one", {{"k", "1"}});
  json::object changed = first;
  make_object(changed, {"data"})["k"] = "2";
  const json::object second = must(client->replace(map_ref("one"), changed));
  EXPECT_TRUE(is_older(first, second));
  const auto stale = run(client->replace(map_ref("one"), first));
  ASSERT_FALSE(stale);
  EXPECT_TRUE(is_conflict(stale.error())) << stale.error().message;
  EXPECT_EQ(version_of(must(client->replace(map_ref("one"), second))), version_of(second))
      << "a write that changes nothing makes no version";
}

TEST_F(KubernetesApiTest, AMergePatchChangesAndRemovesFields) {
  const json::object made = make_map("one", {{"a", "1"}, {"b", "2"}});
  const json::object patched =
      must(client->patch(map_ref("one"), PatchType::Merge, {{"data", {{"a", nullptr}, {"c", "3"}}}}));
  EXPECT_EQ(patched.at("data"), json::value({{"b", "2"}, {"c", "3"}}));
  const auto stale =
      run(client->patch(map_ref("one"), PatchType::Merge,
                        {{"metadata", {{"resourceVersion", version_of(made)}}}, {"data", {{"a", "9"}}}}));
  ASSERT_FALSE(stale) << "a version in the patch is a condition";
  EXPECT_TRUE(is_conflict(stale.error()));
}

TEST_F(KubernetesApiTest, AStrategicPatchMergesContainersByName) {
  deployment("one");
  const json::object patched = must(
      client->patch(deployment_ref("one"), PatchType::Strategic,
                    {{"spec", {{"template", {{"spec", {{"containers", {{{"name", "b"}, {"image", "y:2"}}}}}}}}}}}));
  const json::array& containers = find(patched, {"spec", "template", "spec", "containers"})->as_array();
  ASSERT_EQ(containers.size(), 2u);
  std::map<std::string_view, std::string_view> images;
  for (const json::value& each : containers) {
    images[text(each.as_object(), {"name"})] = text(each.as_object(), {"image"});
  }
  EXPECT_EQ(images["a"], "x:1");
  EXPECT_EQ(images["b"], "y:2");
}

TEST_F(KubernetesApiTest, AppliedFieldsBelongToTheirManager) {
  const auto apply = [&](const std::string& manager, json::object data, bool force = false) {
    return run(client->patch(map_ref("one"), PatchType::Apply, {{"metadata", {{"name", "one"}}}, {"data", data}},
                             {.manager = manager, .force = force}));
  };
  ASSERT_TRUE(apply("first", {{"a", "1"}, {"b", "1"}}));
  const auto other = apply("second", {{"a", "2"}});
  ASSERT_FALSE(other);
  EXPECT_TRUE(is_conflict(other.error())) << other.error().message;
  ASSERT_TRUE(apply("second", {{"c", "3"}})) << "fields of their own do not clash";
  const auto forced = apply("second", {{"a", "2"}, {"c", "3"}}, true);
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ(forced->at("data"), json::value({{"a", "2"}, {"b", "1"}, {"c", "3"}}));
  EXPECT_TRUE(is_conflict(apply("first", {{"a", "1"}, {"b", "1"}}).error())) << "the field has another owner now";
  const auto dropped = apply("first", {});
  ASSERT_TRUE(dropped) << dropped.error().message;
  EXPECT_EQ(dropped->at("data"), json::value({{"a", "2"}, {"c", "3"}})) << "a field that is not applied any more goes";
  ASSERT_TRUE(run(client->patch(map_ref("one"), PatchType::Merge, {{"data", {{"c", "4"}}}}, {.manager = "third"})));
  EXPECT_TRUE(is_conflict(apply("second", {{"a", "2"}, {"c", "3"}}).error())) << "other writes own fields too";
}

TEST_F(KubernetesApiTest, AWatchGoesOnWhereAListWas) {
  make_map("before");
  const List list = must(client->list(resources::kConfigMaps, ns));
  make_map("one", {}, {{"labels", {{"in", "yes"}}}});
  const auto watch = must(client->watch(resources::kConfigMaps, ns, {.labels = "in=yes", .version = list.version}));
  WatchEvent event = next(*watch);
  EXPECT_EQ(event.type, Type::Added);
  EXPECT_EQ(key_of(*event.object).name, "one");
  EXPECT_EQ(text(*event.object, {"kind"}), "ConfigMap");
  must(client->patch(map_ref("one"), PatchType::Merge, {{"data", {{"k", "v"}}}}));
  event = next(*watch);
  EXPECT_EQ(event.type, Type::Modified);
  const json::object outside =
      must(client->patch(map_ref("one"), PatchType::Merge, {{"metadata", {{"labels", {{"in", "no"}}}}}}));
  event = next(*watch);
  EXPECT_EQ(event.type, Type::Deleted) << "an object that is not selected any more is gone for this watch";
  EXPECT_EQ(version_of(*event.object), version_of(outside));
  must(client->patch(map_ref("one"), PatchType::Merge, {{"metadata", {{"labels", {{"in", "yes"}}}}}}));
  event = next(*watch);
  EXPECT_EQ(event.type, Type::Added);
  const std::string last(version_of(*event.object));
  ASSERT_TRUE(run(client->remove(map_ref("one"))));
  event = next(*watch);
  EXPECT_EQ(event.type, Type::Deleted);
  EXPECT_GT(parse_version(version_of(*event.object)), parse_version(last)) << "a removal has a version of its own";
}

TEST_F(KubernetesApiTest, AWatchWithoutAVersionBeginsWithTheObjects) {
  make_map("one");
  const auto watch = must(client->watch(resources::kConfigMaps, ns, {.fields = "metadata.name=one"}));
  const WatchEvent event = next(*watch);
  EXPECT_EQ(event.type, Type::Added);
  EXPECT_EQ(key_of(*event.object).name, "one");
}

TEST_F(KubernetesApiTest, PagesOfAListHaveOneVersion) {
  for (int i = 0; i < 5; ++i) make_map("m" + std::to_string(i), {}, {{"labels", {{"p", "x"}}}});
  std::vector<std::string> names;
  std::string version;
  ListOptions options{.labels = "p=x", .limit = 2};
  do {
    const List page = must(client->list(resources::kConfigMaps, ns, options));
    EXPECT_LE(page.items.size(), 2u);
    for (const ObjectPtr& each : page.items) names.push_back(key_of(*each).name);
    if (version.empty()) {
      version = page.version;
      must(client->remove(map_ref("m4")));  // the pages that follow show the list as it was
    }
    EXPECT_EQ(page.version, version);
    options.next = page.next;
  } while (!options.next.empty());
  EXPECT_EQ(names, (std::vector<std::string>{"m0", "m1", "m2", "m3", "m4"}));
}

TEST_F(KubernetesApiTest, AFinalizerHoldsAnObjectUntilItIsTakenAway) {
  make_map("one", {}, {{"finalizers", {"opensandbox.io/test"}}});
  ASSERT_TRUE(run(client->remove(map_ref("one"))));
  const json::object held = must(client->get(map_ref("one")));
  EXPECT_TRUE(is_deleting(held));
  const auto more = run(client->patch(map_ref("one"), PatchType::Merge,
                                      {{"metadata", {{"finalizers", {"opensandbox.io/test", "opensandbox.io/b"}}}}}));
  EXPECT_FALSE(more) << "no finalizer can be added any more";
  must(client->patch(map_ref("one"), PatchType::Merge, {{"metadata", {{"finalizers", nullptr}}}}));
  EXPECT_TRUE(is_not_found(run(client->get(map_ref("one"))).error()));
}

TEST_F(KubernetesApiTest, ObjectsGoWithTheirOwner) {
  const json::object owner = make_map("owner");
  make_map("child", {}, {{"ownerReferences", {owner_reference(owner, true)}}});
  const json::object other = make_map("other");
  make_map("shared", {}, {{"ownerReferences", {owner_reference(owner, false), owner_reference(other, false)}}});
  const List list = must(client->list(resources::kConfigMaps, ns));
  const auto watch =
      must(client->watch(resources::kConfigMaps, ns, {.fields = "metadata.name=child", .version = list.version}));
  ASSERT_TRUE(run(client->remove(map_ref("owner"))));
  EXPECT_EQ(next(*watch).type, Type::Deleted);
  EXPECT_TRUE(run(client->get(map_ref("shared")))) << "another owner is left";
}

TEST_F(KubernetesApiTest, OrphansStayWithoutTheirOwner) {
  const json::object owner = make_map("owner");
  make_map("child", {}, {{"ownerReferences", {owner_reference(owner, true)}}});
  const List list = must(client->list(resources::kConfigMaps, ns));
  const auto watch =
      must(client->watch(resources::kConfigMaps, ns, {.fields = "metadata.name=child", .version = list.version}));
  ASSERT_TRUE(run(client->remove(map_ref("owner"), {.propagation = "Orphan"})));
  const WatchEvent event = next(*watch);
  EXPECT_EQ(event.type, Type::Modified);
  EXPECT_EQ(controller_uid(*event.object), "");
}

TEST_F(KubernetesApiTest, ADeletionCanNameTheObjectItMeans) {
  make_map("one");
  const auto wrong = run(client->remove(map_ref("one"), {.uid = new_uuid()}));
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(is_conflict(wrong.error())) << wrong.error().message;
  EXPECT_TRUE(run(client->get(map_ref("one"))));
}

TEST_F(KubernetesApiTest, StatusAndSpecAreWrittenApart) {
  deployment("one");
  const json::object status = must(client->patch(deployment_ref("one", "status"), PatchType::Merge,
                                                 {{"spec", {{"replicas", 7}}}, {"status", {{"replicas", 3}}}}));
  EXPECT_EQ(number(status, {"spec", "replicas"}), 0);
  EXPECT_EQ(number(status, {"status", "replicas"}), 3);
  const json::object spec =
      must(client->patch(deployment_ref("one"), PatchType::Merge, {{"status", {{"replicas", 9}}}}));
  EXPECT_NE(number(spec, {"status", "replicas"}), 9);
}

TEST_F(KubernetesApiTest, TheScaleOfADeploymentIsItsReplicas) {
  deployment("one", 0);
  EXPECT_EQ(must(client->replicas(resources::kDeployments, {ns, "one"})), 0);
  EXPECT_EQ(must(client->set_replicas(resources::kDeployments, {ns, "one"}, 2)), 2);
  EXPECT_EQ(number(must(client->get(deployment_ref("one"))), {"spec", "replicas"}), 2);
}

TEST_F(KubernetesApiTest, ATypeThatIsNotThereIsNotFound) {
  const Resource unknown{"nothing.example.com", "v1", "things", "Thing", true};
  EXPECT_TRUE(is_not_found(run(client->list(unknown, ns)).error()));
}

}  // namespace
}  // namespace osb::kubernetes
