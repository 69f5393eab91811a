#include "execd/code/jupyter/jupyter_server.h"

#include <gtest/gtest.h>

namespace osb::execd::jupyter {
namespace {

TEST(JupyterServer, AddressIsAnIpAddressOrLocalhostWithOrWithoutAPath) {
  const struct {
    const char* url;
    const char* origin;
    const char* path;
  } rows[] = {
      {"http://127.0.0.1:44771", "127.0.0.1:44771", ""},
      {"http://127.0.0.1:44771/", "127.0.0.1:44771", ""},
      {"http://localhost:8888/base/url/?x=1", "127.0.0.1:8888", "/base/url"},
      {"http://[::1]:9", "[::1]:9", ""},
      {"http://10.0.0.1", "10.0.0.1:80", ""},
  };
  for (const auto& row : rows) {
    const auto got = JupyterServer::parse(row.url, "t");
    ASSERT_TRUE(got) << row.url << ": " << got.error().message;
    EXPECT_EQ(got->origin, row.origin);
    EXPECT_EQ(got->path, row.path);
    EXPECT_EQ(got->token, "t");
  }
}

TEST(JupyterServer, NamesAndTlsAreRefusedWithTheReason) {
  for (const char* url : {"https://127.0.0.1:1", "http://jupyter.example", "nonsense"}) {
    const auto got = JupyterServer::parse(url, "t");
    ASSERT_FALSE(got) << url;
    EXPECT_NE(got.error().message.find("JUPYTER_HOST"), std::string::npos) << got.error().message;
  }
}

}  // namespace
}  // namespace osb::execd::jupyter
