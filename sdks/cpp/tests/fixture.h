#pragma once

#include <cstdlib>
#include <opensandbox/opensandbox.h>
#include <optional>
#include <string>

#include <gtest/gtest.h>

// The suite runs against a real server: OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY say where it is, SDK_TEST_IMAGE
// names an image with bash, and SDK_TEST_PROXY=1 sends everything through the server.
namespace opensandbox {

inline std::string test_image() {
  const char* image = std::getenv("SDK_TEST_IMAGE");
  return image != nullptr ? image : "host";
}

inline ConnectionConfig test_config() {
  ConnectionConfig config;
  const char* proxy = std::getenv("SDK_TEST_PROXY");
  config.use_server_proxy = proxy != nullptr && std::string(proxy) == "1";
  return config;
}

// A result that has to be there; the error is in the message where it is not.
template <typename T>
T must(Result<T> result, const char* what = "") {
  if (!result) {
    ADD_FAILURE() << what << ' ' << result.error().to_string();
    throw std::runtime_error(result.error().to_string());
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// One sandbox per test, gone afterwards.
class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    client_.emplace(must(Client::open(test_config())));
    sandbox_.emplace(must(Sandbox::create(*client_, {.image = test_image()})));
  }
  void TearDown() override {
    if (sandbox_) (void)sandbox_->kill();
  }
  Sandbox& sandbox() { return *sandbox_; }
  const Client& client() { return *client_; }

 private:
  std::optional<Client> client_;
  std::optional<Sandbox> sandbox_;
};

}  // namespace opensandbox
