#include "sandboxd/daemon/check.h"

#include <algorithm>
#include <filesystem>
#include <linux/netfilter.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "kernel/nftables.h"
#include "sandboxd/network/network_fixture.h"
#include "support/temp_dir.h"
#include "sys/cgroup.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using State = HostCheck::State;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<HostCheck> kMixed = {
    {"kernel", State::Ok, "Linux 6.1", ""},
    {"ip_forward", State::Degraded, "off", "turn it on"},
    {"GPU", State::Missing, "no \"devices\"", ""},
    {"overlayfs", State::Required, "mount: No such device", "load the overlay module"},
    {"seccomp", State::Required, "none", ""},
};

TEST(FormatChecks, ColumnsAreAligned) {
  EXPECT_EQ(format_checks(kMixed, false),
            "kernel      ok        Linux 6.1\n"
            "ip_forward  degraded  off\n"
            "                      -> turn it on\n"
            "GPU         missing   no \"devices\"\n"
            "overlayfs   required  mount: No such device\n"
            "                      -> load the overlay module\n"
            "seccomp     required  none\n");
}

TEST(FormatChecks, ColoursOnlyWhenAskedFor) {
  EXPECT_THAT(format_checks(kMixed, false), Not(HasSubstr("\x1b")));
  const std::string coloured = format_checks(kMixed, true);
  EXPECT_THAT(coloured, HasSubstr("kernel      \x1b[32mok      \x1b[0m  Linux 6.1\n"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[1;31mrequired\x1b[0m"));
}

TEST(FormatChecks, JsonSaysTheSame) {
  const auto parsed = api::parse_json(checks_to_json(kMixed));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE(parsed->at("ok").as_bool());
  const auto& rows = parsed->at("checks").as_array();
  ASSERT_EQ(rows.size(), kMixed.size());
  EXPECT_EQ(rows[1].at("state").as_string(), "degraded");
  EXPECT_EQ(rows[1].at("advice").as_string(), "turn it on");
  EXPECT_EQ(rows[2].at("detail").as_string(), "no \"devices\"");
  EXPECT_EQ(rows[3].at("what").as_string(), "overlayfs");
  EXPECT_TRUE(api::parse_json(checks_to_json({}))->at("ok").as_bool());
}

TEST(RequireHost, NamesAllThatIsMissingInOneSentence) {
  const auto refused = require_host(kMixed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Unsupported);
  EXPECT_EQ(
      refused.error().message,
      "this host cannot run sandboxes: overlayfs: mount: No such device (load the overlay module); seccomp: none");
  EXPECT_TRUE(require_host({kMixed.begin(), kMixed.begin() + 3}));
}

// The real thing. The machine that runs the tests can run sandboxes, so nothing required is missing.
TEST(CheckHost, ThisHostCanRunSandboxes) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const osb::testing::TempDir state;
  const std::string parent = "osb-test-check-" + std::to_string(::getpid());
  const auto checks = check_host({.state_directory = state / "not/yet/there", .cgroup_parent = parent});
  const auto usable = require_host(checks);
  EXPECT_TRUE(usable) << usable.error().message;
  for (const char* name : {"kernel", "root", "namespaces", "user namespaces", "idmapped mounts", "overlayfs", "cgroups",
                           "cgroup memory", "seccomp", "reflink", "disk limit", "veth", "nftables", "ip_forward",
                           "network policy", "AppArmor, SELinux", "GPU", "gVisor (runsc)"}) {
    const auto row = std::ranges::find(checks, name, &HostCheck::what);
    ASSERT_NE(row, checks.end()) << name;
    EXPECT_FALSE(row->detail.empty()) << name;
    EXPECT_TRUE(row->state == State::Ok || !row->advice.empty()) << name;
  }
  EXPECT_TRUE(fs::is_empty(state.path())) << "nothing stays in the state directory";
  const auto cgroups = sys::find_cgroups();
  if (cgroups.v2) {
    for (const auto& entry : fs::directory_iterator(cgroups.v2->mount)) {
      EXPECT_THAT(entry.path().string(), Not(HasSubstr(parent))) << "no cgroup stays";
    }
  }
}

TEST(CheckHost, AFirewallThatKeepsSandboxesFromTheNetworkIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  testing::in_own_network([] {
    const osb::testing::TempDir state;
    const auto named = [&] {
      const auto checks = check_host({.state_directory = state.path(), .cgroup_parent = "osb-test-check-firewall"});
      return std::ranges::find(checks, "other firewall", &HostCheck::what) != checks.end();
    };
    EXPECT_FALSE(named());
    auto netfilter = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
    ASSERT_TRUE(netfilter);
    kernel::NftBatch batch("strict");
    batch.add_table();
    batch.add_chain({.name = "FORWARD", .hook = NF_INET_FORWARD, .drop_by_default = true});
    ASSERT_TRUE(batch.commit(*netfilter));
    EXPECT_TRUE(named());
  });
}

TEST(CheckHost, AStateDirectoryThatCannotHoldSandboxesIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string parent = "osb-test-check-proc-" + std::to_string(::getpid());
  const auto refused = require_host(check_host({.state_directory = "/proc", .cgroup_parent = parent}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("state directory"));
}

TEST(CheckHost, AProgramThatIsMissingIsSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const osb::testing::TempDir state;
  const std::string parent = "osb-test-check-runsc-" + std::to_string(::getpid());
  const auto checks =
      check_host({.state_directory = state.path(), .cgroup_parent = parent, .runsc = "/no/such/program"});
  const auto row = std::ranges::find(checks, "gVisor (runsc)", &HostCheck::what);
  ASSERT_NE(row, checks.end());
  EXPECT_EQ(row->state, State::Missing);
  EXPECT_THAT(row->detail, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace osb::sandboxd
