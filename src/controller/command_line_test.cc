#include "controller/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::controller {
namespace {

using namespace std::chrono_literals;

TEST(ControllerCommandLine, DefaultsAreSafe) {
  const auto line = parse_command_line({});
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->leader_elect);
  EXPECT_FALSE(line->metrics);
  EXPECT_EQ(line->health->to_string(), "0.0.0.0:8081");
  EXPECT_EQ(line->controller.snapshots.committer_image, "opensandbox/image-committer:" OSB_VERSION);
}

TEST(ControllerCommandLine, FlagsAreReadAsGoProgramsReadThem) {
  const auto line = parse_command_line({"-leader-elect=false", "--metrics-bind-address", "127.0.0.1:9",
                                        "--concurrency=batchsandbox=3;pool=2", "--commit-job-timeout=1m30s",
                                        "--health-probe-bind-address=0", "--kube-client-qps=12", "--print-crds=pools"});
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_FALSE(line->leader_elect);
  EXPECT_EQ(line->metrics->to_string(), "127.0.0.1:9");
  EXPECT_EQ(line->controller.sandbox_workers, 3u);
  EXPECT_EQ(line->controller.pool_workers, 2u);
  EXPECT_EQ(line->controller.snapshots.job_timeout, 90s);
  EXPECT_FALSE(line->health);
  EXPECT_EQ(line->qps, 12);
  EXPECT_EQ(line->crd, "pools");
}

TEST(ControllerCommandLine, NonsenseIsRefusedByName) {
  for (const auto& [arg, name] : {std::pair("--nothing", "--nothing"),
                                  {"x", "x"},
                                  {"--leader-elect=perhaps", "--leader-elect"},
                                  {"--concurrency=pool", "--concurrency"},
                                  {"--concurrency=pods=1", "pods"},
                                  {"--commit-job-timeout=soon", "--commit-job-timeout"},
                                  {"--namespace", "--namespace"},
                                  {"--metrics-secure", "plain HTTP"},
                                  {"--kube-client-burst=-1", "--kube-client-burst"},
                                  {"--metrics-bind-address=x", "--metrics-bind-address"}}) {
    const auto line = parse_command_line({arg});
    ASSERT_FALSE(line) << arg;
    EXPECT_THAT(line.error().message, ::testing::HasSubstr(name));
  }
}

}  // namespace
}  // namespace osb::controller
