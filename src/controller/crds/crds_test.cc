#include "controller/crds/crds.h"

#include <functional>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "kubernetes/object.h"
#include "yaml/reader.h"

namespace osb::controller {
namespace {

namespace json = boost::json;

TEST(Crds, TextReadsBackAsTheSameDefinition) {
  for (const CrdFile& each : crds()) {
    const auto read = yaml::parse(crd_text(each));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(json::serialize(*read), json::serialize(each.definition)) << each.name;
  }
}

// The rules of a structural schema: each field has a type, or says that it has none.
void check_structural(const json::object& schema, const std::string& at) {
  const bool typed = schema.contains("type") || schema.contains("x-kubernetes-int-or-string");
  EXPECT_TRUE(typed) << at;
  if (const json::value* items = schema.if_contains("items")) check_structural(items->as_object(), at + "[]");
  if (const json::value* properties = schema.if_contains("properties")) {
    for (const auto& [key, value] : properties->as_object())
      check_structural(value.as_object(), at + "." + std::string(key));
    if (const json::value* required = schema.if_contains("required")) {
      for (const json::value& each : required->as_array()) {
        EXPECT_TRUE(properties->as_object().contains(each.as_string())) << at;
      }
    }
  }
  if (schema.contains("x-kubernetes-list-map-keys")) {
    const json::array& required = kubernetes::find(schema, {"items", "required"})->as_array();
    for (const json::value& key : schema.at("x-kubernetes-list-map-keys").as_array()) {
      EXPECT_NE(std::ranges::find(required, key), required.end()) << at << ": a key of a list is required";
    }
  }
}

TEST(Crds, SchemasAreStructural) {
  ASSERT_EQ(crds().size(), 3u);
  for (const CrdFile& each : crds()) {
    const json::object& version = kubernetes::find(each.definition, {"spec", "versions"})->as_array()[0].as_object();
    check_structural(version.at("schema").at("openAPIV3Schema").as_object(), each.name);
    EXPECT_TRUE(kubernetes::find(version, {"subresources", "status"})) << each.name;
  }
}

}  // namespace
}  // namespace osb::controller
