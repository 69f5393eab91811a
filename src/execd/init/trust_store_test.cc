#include "execd/init/trust_store.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/text_file.h"

namespace osb::execd {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::string_view kOurs = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";
constexpr std::string_view kTheirs = "-----BEGIN CERTIFICATE-----\ntheirs\n-----END CERTIFICATE-----";

class TrustAuthority : public ::testing::Test {
 protected:
  void put(const std::string& path, std::string_view text) {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string text(const std::string& path) { return sys::read_text(path).value_or("(none)"); }
  std::string root() const { return dir_.path().string(); }
  Environment trust(const Environment& env = {}) { return trust_authority(kOurs, env, {.root = root()}); }

  testing::TempDir dir_;
};

TEST_F(TrustAuthority, EveryListOfTheImageGetsItOnce) {
  for (const char* list : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"})
    put(list, kTheirs);
  std::filesystem::create_symlink("certs/ca-certificates.crt", root() + "/etc/ssl/cert.pem");
  std::filesystem::create_directories(root() + "/usr/local/share/ca-certificates");
  trust();
  const Environment variables = trust();
  const std::string both = std::string(kTheirs) + "\n" + std::string(kOurs);
  EXPECT_EQ(text(root() + "/etc/ssl/certs/ca-certificates.crt"), both);
  EXPECT_EQ(text(root() + "/etc/pki/tls/certs/ca-bundle.crt"), both);
  EXPECT_EQ(text(root() + "/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt"), kOurs);
  EXPECT_EQ(text(variables.at("SSL_CERT_FILE")), both);
  EXPECT_EQ(variables.at("REQUESTS_CA_BUNDLE"), root() + "/opt/opensandbox/merged-ca-certificates.pem");
  EXPECT_EQ(text(variables.at("NODE_EXTRA_CA_CERTS")), kOurs);
}

TEST_F(TrustAuthority, AnImageWithoutAListUsesPythonsOrTheOneThatItNames) {
  EXPECT_EQ(text(trust().at("SSL_CERT_FILE")), kOurs);
  put("/usr/local/lib/python3.12/site-packages/certifi/cacert.pem", kTheirs);
  EXPECT_THAT(text(trust().at("SSL_CERT_FILE")), HasSubstr("theirs"));
  put("/nix/bundle", "named\n");
  EXPECT_EQ(text(trust({{"SSL_CERT_FILE", root() + "/nix/bundle"}}).at("SSL_CERT_FILE")),
            "named\n" + std::string(kOurs));
}

TEST_F(TrustAuthority, TheNextDirectoryIsTakenWhereOneCannotBeWritten) {
  put("/opt/opensandbox", "a file");
  EXPECT_THAT(trust().at("SSL_CERT_FILE"), EndsWith("/var/lib/opensandbox/merged-ca-certificates.pem"));
}

}  // namespace
}  // namespace osb::execd
