#include "server/template/template_publisher.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

TEST(ParsePublish, LocalAndListedDirectoriesAreTakenNothingElse) {
  PublishPlaces places;
  places.directories = {"/srv/templates/", "/data"};
  places.registries = {"r.example.com/team", "127.0.0.1:5000/"};
  EXPECT_EQ(parse_publish("local://", {})->kind, PublishTarget::Kind::Local);
  for (const char* text :
       {"file:///srv/templates/a.tar", "file:///srv/templates/below/a.tar", "file:///data/a.b.tar"}) {
    const auto target = parse_publish(text, places);
    ASSERT_TRUE(target) << text << target.error().message;
    EXPECT_EQ("file://" + target->file.string(), text);
  }
  for (const auto& [text, name] : {std::pair("oci://r.example.com/team/warm", "r.example.com/team/warm:latest"),
                                   std::pair("oci://r.example.com/team/a/b:1.2", "r.example.com/team/a/b:1.2"),
                                   std::pair("oci://r.example.com/team:1", "r.example.com/team:1"),
                                   std::pair("oci://127.0.0.1:5000/x:y", "127.0.0.1:5000/x:y")}) {
    const auto target = parse_publish(text, places);
    ASSERT_TRUE(target) << text << target.error().message;
    EXPECT_EQ(target->kind, PublishTarget::Kind::Registry);
    EXPECT_EQ(target->image.to_string(), name);
  }
  struct {
    const char* text;
    const char* why;
  } rows[] = {
      {"", "is not supported"},
      {"s3://bucket/a", "is not supported"},
      {"local://x", "is not supported"},
      {"FILE:///data/a.tar", "is not supported"},
      {"file://data/a.tar", "absolute"},
      {"file:///data/../etc/a.tar", "absolute"},
      {"file:///data/./a.tar", "absolute"},
      {"file:///data//a.tar", "absolute"},
      {"file:///data/a", "NAME.tar"},
      {"file:///data/.tar", "NAME.tar"},
      {"file:///data.tar", "is not listed"},
      {"file:///database/a.tar", "is not listed"},
      {"file:///srv/a.tar", "is not listed"},
      {"oci://", "spelled out"},
      {"oci://team/warm", "spelled out"},
      {"oci://r.example.com", "spelled out"},
      {"oci://r.example.com/team/Warm", "spelled out"},
      {"oci://r.example.com/team/../warm", "spelled out"},
      {"oci://r.example.com/team/a@sha256:0000000000000000000000000000000000000000000000000000000000000000",
       "spelled out"},
      {"oci://r.example.com/teams/warm", "is not listed"},
      {"oci://r.example.com/other", "is not listed"},
      {"oci://r.example.com:5000/team/warm", "is not listed"},
      {"oci://other.example.com/team/warm:1", "is not listed"},
  };
  for (const auto& row : rows) {
    const auto refused = parse_publish(row.text, places);
    ASSERT_FALSE(refused) << row.text;
    EXPECT_EQ(refused.error().code, Code::InvalidRequest);
    EXPECT_NE(refused.error().message.find(row.why), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace osb::server
