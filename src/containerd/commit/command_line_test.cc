#include "containerd/commit/command_line.h"

#include <gmock/gmock.h>

namespace osb::containerd {
namespace {

using ::testing::HasSubstr;

TEST(CommandLine, AJobNamesItsContainersAndImages) {
  const auto line = parse_command_line({"a-0", "ns", "sandbox:registry.test:5000/x/a:snap-1", "side:debian"}, {});
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->action, CommandLine::Action::Commit);
  EXPECT_EQ(line->pod + "/" + line->ns, "a-0/ns");
  ASSERT_EQ(line->targets.size(), 2u);
  EXPECT_EQ(line->targets[0].container, "sandbox");
  EXPECT_EQ(line->targets[0].image, "registry.test:5000/x/a:snap-1");
  EXPECT_EQ(line->targets[1].reference.to_string(), "docker.io/library/debian:latest");
  EXPECT_EQ(line->socket, "/var/run/containerd/containerd.sock");
  EXPECT_FALSE(line->plain_http);
}

TEST(CommandLine, UnpauseTakesContainersOnly) {
  const auto line = parse_command_line({"unpause", "a-0", "ns", "sandbox", "side"}, {{"CONTAINERD_SOCKET", "/s"}});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->action, CommandLine::Action::Unpause);
  EXPECT_EQ(line->targets.size(), 2u);
  EXPECT_EQ(line->socket, "/s");
}

TEST(CommandLine, PlainHttpIsForThoseWhoSaySo) {
  const std::vector<std::string> args{"a", "b", "c:d"};
  EXPECT_TRUE(parse_command_line(args, {{"SNAPSHOT_REGISTRY_INSECURE", "true"}})->plain_http);
  EXPECT_FALSE(parse_command_line(args, {{"SNAPSHOT_REGISTRY_INSECURE", "false"}})->plain_http);
  EXPECT_FALSE(parse_command_line(args, {{"SNAPSHOT_REGISTRY_INSECURE", ""}})->plain_http);
  EXPECT_FALSE(parse_command_line(args, {{"SNAPSHOT_REGISTRY_INSECURE", "perhaps"}}));
}

TEST(CommandLine, MistakesAreNamed) {
  struct {
    const char* why;
    std::vector<std::string> args;
    const char* says;
  } rows[] = {
      {"nothing", {}, "expected a pod"},
      {"no container", {"a", "ns"}, "expected a pod"},
      {"no image", {"a", "ns", "sandbox"}, "CONTAINER:IMAGE"},
      {"no name of an image", {"a", "ns", "sandbox:a//b"}, "a//b"},
      {"an image by its digest", {"a", "ns", "x:y@sha256:" + std::string(64, '0')}, "a tag"},
      {"twice the same", {"a", "ns", "x:y", "x:z"}, "twice"},
      {"a name that would change containerd's filter", {"a\",labels.x==\"", "ns", "x:y"}, "no name of Kubernetes"},
      {"the same in a container", {"a", "ns", "x\":y"}, "no name of Kubernetes"},
      {"an option", {"--quick", "a", "ns", "x:y"}, "--quick"},
      {"an option without its value", {"a", "ns", "x:y", "--message"}, "needs a file"},
  };
  for (const auto& row : rows) {
    const auto line = parse_command_line(row.args, {});
    ASSERT_FALSE(line) << row.why;
    EXPECT_THAT(line.error().message, HasSubstr(row.says)) << row.why;
  }
}

}  // namespace
}  // namespace osb::containerd
