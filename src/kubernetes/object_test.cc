#include "kubernetes/object.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "kubernetes/resource.h"

namespace osb::kubernetes {
namespace {

json::object parsed(std::string_view text) { return json::parse(text).as_object(); }

TEST(KubernetesObjectTest, MissingAndMistypedFieldsReadAsEmpty) {
  const json::object pod = parsed(R"({"metadata":{"name":"p","labels":[1],"generation":3},"spec":7})");
  EXPECT_EQ(text(pod, {"metadata", "name"}), "p");
  EXPECT_EQ(text(pod, {"metadata", "namespace"}), "");
  EXPECT_EQ(text(pod, {"spec", "nodeName"}), "");
  EXPECT_EQ(label(pod, "a"), "");
  EXPECT_EQ(number(pod, {"metadata", "generation"}), 3);
  EXPECT_EQ(number(pod, {"metadata", "name"}, -1), -1);
  EXPECT_EQ(key_of(pod).to_string(), "p");
  EXPECT_FALSE(is_deleting(pod));
}

TEST(KubernetesObjectTest, VersionsCompareAsNumbers) {
  const json::object old = parsed(R"({"metadata":{"resourceVersion":"99"}})");
  const json::object fresh = parsed(R"({"metadata":{"resourceVersion":"100"}})");
  const json::object odd = parsed(R"({"metadata":{"resourceVersion":"x1"}})");
  EXPECT_TRUE(is_older(old, fresh));
  EXPECT_FALSE(is_older(fresh, old));
  EXPECT_FALSE(is_older(odd, fresh));
  EXPECT_FALSE(is_older(old, odd));
}

TEST(KubernetesObjectTest, TheControllerIsTheOwnerThatSaysSo) {
  const json::object owner = parsed(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"o","uid":"u1"}})");
  json::object child = parsed(R"({"metadata":{"ownerReferences":[{"uid":"u0"}],"finalizers":["a/b"]}})");
  EXPECT_EQ(controller_uid(child), "");
  child["metadata"].at("ownerReferences").as_array().push_back(owner_reference(owner, true));
  EXPECT_EQ(controller_uid(child), "u1");
  EXPECT_TRUE(has_finalizer(child, "a/b"));
  EXPECT_FALSE(has_finalizer(child, "a"));
}

TEST(KubernetesObjectTest, MakeObjectReplacesWhatIsNoObject) {
  json::object pod = parsed(R"({"metadata":{"labels":null}})");
  make_object(pod, {"metadata", "labels"})["a"] = "b";
  EXPECT_EQ(json::serialize(pod), R"({"metadata":{"labels":{"a":"b"}}})");
}

TEST(KubernetesResourceTest, PathsFollowGroupNamespaceAndSubresource) {
  EXPECT_EQ(resources::kPods.path("default", "p", "log"), "/api/v1/namespaces/default/pods/p/log");
  EXPECT_EQ(resources::kPods.path(), "/api/v1/pods");
  EXPECT_EQ(resources::kLeases.path("kube-system", "l"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l");
  EXPECT_EQ(resources::kNamespaces.path("ignored", "n"), "/api/v1/namespaces/n");
  EXPECT_EQ(resources::kPods.path("a", "../x"), "/api/v1/namespaces/a/pods/..%2Fx");
}

}  // namespace
}  // namespace osb::kubernetes
