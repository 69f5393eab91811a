#include "server/http/auth.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

TEST(ApiKey, OnlyHealthDocumentationAndTheProxyAreOpen) {
  const struct {
    const char* why;
    const char* path;
    bool open;
  } rows[] = {
      {"health", "/health", true},
      {"readiness", "/health/ready", true},
      {"the page that says what this is", "/", true},
      {"not what begins like it", "//", false},
      {"documentation", "/docs", true},
      {"the document", "/openapi.json", true},
      {"health has no version", "/v1/health", false},
      {"the list", "/sandboxes", false},
      {"the proxy's root", "/sandboxes/x/proxy/80", true},
      {"a path behind it", "/v1/sandboxes/x/proxy/80/a/b", true},
      {"an encoded port", "/sandboxes/x/proxy/%38%30/", true},
      {"a port that is none", "/sandboxes/x/proxy/http/", false},
      {"no port", "/sandboxes/x/proxy/", false},
      {"no id", "/sandboxes//proxy/80/", false},
      {"dots", "/sandboxes/x/proxy/80/../../y", false},
      {"encoded dots", "/sandboxes/x/proxy/80/%2e%2e/y", false},
      {"dots in health", "/health/../sandboxes", false},
      {"slashes hidden in an id", "/sandboxes/x%2Fproxy%2F80", false},
      {"a broken escape", "/sandboxes/x/proxy/80/%zz", false},
      {"another prefix", "/v2/sandboxes/x/proxy/80/", false},
      {"empty", "", false},
  };
  for (const auto& row : rows) EXPECT_EQ(is_open_path(row.path), row.open) << row.why;
}

TEST(ApiKey, SecretsCompareByteForByte) {
  EXPECT_TRUE(same_secret("secret", "secret"));
  EXPECT_FALSE(same_secret("secret", "Secret"));
  EXPECT_FALSE(same_secret("secre", "secret"));
  EXPECT_FALSE(same_secret("", "secret"));
}

}  // namespace
}  // namespace osb::server
