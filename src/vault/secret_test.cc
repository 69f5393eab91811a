#include "vault/secret.h"

#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>

#include <gtest/gtest.h>

namespace osb::vault {
namespace {

// The VmFlags of the mapping that holds the address.
std::string flags_of(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(smaps, line)) {
    unsigned long first = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) {
      const auto wanted = reinterpret_cast<unsigned long>(address);
      inside = wanted >= first && wanted < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return {};
}

TEST(Secret, LiesInPagesThatAreLockedAndInNoCoreFile) {
  const std::array<std::string_view, 2> values = {"first secret", "second"};
  const auto secrets = Secret::lock(values);
  ASSERT_TRUE(secrets) << secrets.error().message;
  EXPECT_EQ((*secrets)[0].view(), "first secret");
  EXPECT_EQ((*secrets)[1].view(), "second");
  const std::string flags = flags_of((*secrets)[0].view().data());
  EXPECT_TRUE(flags.contains(" lo ")) << flags;  // locked
  EXPECT_TRUE(flags.contains(" dd ")) << flags;  // not in core files
  EXPECT_TRUE(flags.contains(" dc ")) << flags;  // not in children
}

TEST(Secret, BytesAreOverwrittenWhenTheLastOwnerGoes) {
  const std::array<std::string_view, 2> values = {"goes-away", "stays"};
  auto secrets = Secret::lock(values);
  ASSERT_TRUE(secrets);
  const char* at = (*secrets)[0].view().data();
  Secret copy = (*secrets)[0];
  (*secrets)[0] = Secret();
  EXPECT_EQ(std::string_view(at, 9), "goes-away");
  copy = Secret();
  // The page is still there: the second secret lies in it.
  EXPECT_EQ(std::string_view(at, 9), std::string_view("\0\0\0\0\0\0\0\0\0", 9));
  EXPECT_EQ((*secrets)[1].view(), "stays");
}

TEST(Secret, WithoutLockedMemoryIsRefusedWithTheLimitToRaise) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) < 0 || ::setuid(65534) < 0)) ::_exit(3);
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_MEMLOCK, &none) < 0) ::_exit(3);
    const std::array<std::string_view, 1> values = {"hidden-value"};
    const auto refused = Secret::lock(values);
    if (refused) ::_exit(4);
    const bool good = refused.error().code == Code::Unavailable && refused.error().message.contains("memlock") &&
                      !refused.error().message.contains("hidden-value");
    ::_exit(good ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

template <typename T>
concept Printable = requires(std::ostringstream& out, const T& value) { out << value; };
static_assert(!Printable<Secret> && !Printable<SecretText>);
static_assert(!std::is_convertible_v<Secret, std::string_view> && !std::is_convertible_v<SecretText, std::string>);

}  // namespace
}  // namespace osb::vault
