#include "kernel/capabilities.h"

#include <bit>
#include <functional>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CapabilitySet bit(int number) { return CapabilitySet{1} << number; }

int run_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Capabilities, NamesInAnySpelling) {
  for (const char* name : {"CAP_NET_ADMIN", "cap_net_admin", "net_admin", "NET_ADMIN"}) {
    EXPECT_EQ(capability_number(name), CAP_NET_ADMIN) << name;
  }
  EXPECT_EQ(capability_number("CAP_CHOWN"), 0);
  EXPECT_EQ(capability_number("checkpoint_restore"), CAP_CHECKPOINT_RESTORE);
  EXPECT_EQ(capability_number(""), std::nullopt);
  EXPECT_EQ(capability_number("CAP_"), std::nullopt);
  EXPECT_EQ(capability_number("CAP_CAP_CHOWN"), std::nullopt);
  for (int number = 0; number <= CAP_LAST_CAP; ++number) EXPECT_EQ(capability_number(capability_name(number)), number);
  EXPECT_EQ(capability_name(60), "CAP_60");
}

TEST(Capabilities, SetsFromNames) {
  EXPECT_EQ(parse_capabilities({"CHOWN", "cap_setuid"}).value(), bit(CAP_CHOWN) | bit(CAP_SETUID));
  EXPECT_EQ(parse_capabilities({}).value(), 0u);
  EXPECT_EQ(parse_capabilities({"all"}).value(), all_capabilities());
  const auto wrong = parse_capabilities({"chown", "fly"});
  EXPECT_EQ(wrong.error().code, Code::InvalidRequest);
  EXPECT_THAT(wrong.error().message, HasSubstr("fly"));
  EXPECT_THAT(capability_names(bit(CAP_KILL) | bit(CAP_BPF)), ElementsAre("CAP_KILL", "CAP_BPF"));
}

TEST(Capabilities, AChildGivesThemUpForGood) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const CapabilitySet keep = bit(CAP_CHOWN) | bit(CAP_NET_BIND_SERVICE) | bit(CAP_CHECKPOINT_RESTORE);
  EXPECT_EQ(run_child([&] {
              const int last = std::bit_width(all_capabilities()) - 1;
              if (limit_bounding_set(keep, last) != 0) return 1;
              if (set_capabilities(bit(CAP_CHOWN), keep, bit(CAP_CHOWN)) != 0) return 2;
              if (set_ambient_capabilities(bit(CAP_CHOWN)) != 0) return 3;
              const auto now = capabilities_of(::getpid());
              if (!now || now->bounding != keep || now->permitted != keep) return 4;
              if (now->effective != bit(CAP_CHOWN) || now->inheritable != bit(CAP_CHOWN)) return 5;
              if (now->ambient != bit(CAP_CHOWN)) return 6;
              if (set_capabilities(bit(CAP_KILL), bit(CAP_KILL), 0) != EPERM) return 7;
              if (limit_bounding_set(0, last) != EPERM) return 8;  // setpcap has gone too
              if (set_ambient_capabilities(bit(CAP_KILL)) != EPERM) return 9;
              return 0;
            }),
            0);
}

TEST(Capabilities, OfAProcessThatIsNotThere) { EXPECT_EQ(capabilities_of(0x7fff'ffff).error().code, Code::NotFound); }

}  // namespace
}  // namespace osb::kernel
