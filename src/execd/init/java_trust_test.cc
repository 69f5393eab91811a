#include "execd/init/java_trust.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/text_file.h"

namespace osb::execd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// With stores that the machine's own keytool has made, and reads afterwards. Certificates are those of the machine.
class JavaTrust : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr std::string_view kEnd = "-----END CERTIFICATE-----\n";
    const std::string all = sys::read_text("/etc/ssl/certs/ca-certificates.crt").value_or("");
    const auto first = all.find(kEnd) + kEnd.size(), second = all.find(kEnd, first) + kEnd.size();
    theirs_ = all.substr(0, first);
    ours_ = all.substr(first, second - first);
    put("theirs.pem", theirs_);
    put("ours.pem", ours_);
    std::filesystem::create_directories(root() + "/opt/jdk/lib/security");
    std::filesystem::create_directories(root() + "/opt/opensandbox");
  }
  std::string root() const { return dir_.path().string(); }
  std::string cacerts() const { return root() + "/opt/jdk/lib/security/cacerts"; }
  void put(const std::string& name, std::string_view text) { std::ofstream(root() + "/" + name) << text; }

  static std::string keytool(const std::string& arguments) {
    std::string out;
    FILE* pipe = ::popen(("env -u JAVA_TOOL_OPTIONS keytool " + arguments + " 2>&1").c_str(), "re");
    std::array<char, 4096> buffer;
    while (const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), got);
    return ::pclose(pipe) == 0 ? out : "failed: " + out;
  }
  void make_store(const std::string& more) {
    const std::string said = keytool("-importcert -noprompt -alias theirs -file " + root() + "/theirs.pem -keystore " +
                                     cacerts() + " " + more);
    ASSERT_THAT(said, Not(HasSubstr("failed"))) << said;
  }
  static std::string listed(const std::string& store, const std::string& password = "changeit") {
    return keytool("-list -keystore " + store + " -storepass " + password);
  }
  Environment trust(const Environment& env = {}) {
    return trust_in_java(ours_, theirs_ + ours_, env, root(), root() + "/opt/opensandbox");
  }

  testing::TempDir dir_;
  std::string theirs_, ours_;
};

TEST_F(JavaTrust, TheListOfAnOlderJavaGetsItInItsPlace) {
  make_store("-storetype JKS -storepass changeit");
  EXPECT_EQ(trust(), Environment());
  EXPECT_EQ(trust(), Environment()) << "once more";
  const std::string said = listed(cacerts());  // checks the seal
  EXPECT_THAT(said, AllOf(HasSubstr("2 entries"), HasSubstr("theirs, "), HasSubstr("opensandbox-mitmproxy, "))) << said;
}

TEST_F(JavaTrust, TheListOfANewerJavaGetsItInItsPlace) {
  make_store(
      "-storetype PKCS12 -storepass changeit -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE "
      "-J-Dkeystore.pkcs12.macAlgorithm=NONE");
  EXPECT_EQ(trust(), Environment());
  const std::string said = listed(cacerts());
  EXPECT_THAT(said, AllOf(HasSubstr("2 entries"), HasSubstr("theirs, "), HasSubstr("opensandbox-mitmproxy, "))) << said;
  EXPECT_THAT(said, HasSubstr("trustedCertEntry"));
}

TEST_F(JavaTrust, AListWithAPasswordOfItsOwnStaysAndTheUsersOptionsToo) {
  make_store("-storetype PKCS12 -storepass another-one");
  const std::string before = *sys::read_text(cacerts());
  const Environment env = trust({{"JAVA_TOOL_OPTIONS", "-Xmx1g"}});
  const std::string store = root() + "/opt/opensandbox/java-cacerts";
  EXPECT_EQ(env, (Environment{{"JAVA_TOOL_OPTIONS", "-Xmx1g -Djavax.net.ssl.trustStore=" + store}}));
  EXPECT_EQ(*sys::read_text(cacerts()), before);
  EXPECT_THAT(listed(store), HasSubstr("2 entries")) << "the image's list in PEM";
  EXPECT_EQ(trust({{"JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/mine"}}), Environment());
}

TEST_F(JavaTrust, AnImageWithoutJavaIsLeftAlone) {
  EXPECT_EQ(trust(), Environment());
  EXPECT_FALSE(std::filesystem::exists(root() + "/opt/opensandbox/java-cacerts"));
}

}  // namespace
}  // namespace osb::execd
