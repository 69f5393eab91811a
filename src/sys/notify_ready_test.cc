#include "sys/notify_ready.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "support/temp_dir.h"

namespace osb::sys {
namespace {

TEST(NotifyReady, SendsOneDatagramToTheNamedSocket) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "notify").string();
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  notify_ready();
  ::unsetenv("NOTIFY_SOCKET");
  notify_ready();
  char text[64];
  const ssize_t got = ::recv(socket.get(), text, sizeof text, MSG_DONTWAIT);
  EXPECT_EQ(std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0), "READY=1");
  EXPECT_EQ(::recv(socket.get(), text, sizeof text, MSG_DONTWAIT), -1);
}

}  // namespace
}  // namespace osb::sys
