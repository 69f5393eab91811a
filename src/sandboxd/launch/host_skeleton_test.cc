#include "sandboxd/launch/host_skeleton.h"

#include <fstream>
#include <set>
#include <tuple>

#include "sandboxd/launch/host_copy.h"
#include "sandboxd/launch/launch_fixture.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HostRootTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    const auto built = build_host_skeleton(skeleton_);
    ASSERT_TRUE(built) << built.error().message;
  }

  LaunchPlan host_plan(const std::string& script, const std::string& name, std::vector<std::string> snapshots = {}) {
    for (const char* sub : {"upper", "work"}) std::filesystem::create_directories(dir_ / name / sub);
    snapshots.push_back(skeleton_);
    LaunchPlan wanted = plan(script);
    wanted.root = HostRoot{{snapshots, (dir_ / name / "upper").string(), (dir_ / name / "work").string()}};
    wanted.env = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin"};
    return wanted;
  }

  const std::string skeleton_ = (dir_ / "skeleton").string();
};

TEST_F(HostRootTest, RunsTheHostsPrograms) {
  EXPECT_EQ(output_of(host_plan("/bin/bash -c 'id -un; id -u sandbox; ls -d /bin/bash'", "a")),
            "root\n1000\n/bin/bash\n");
}

TEST_F(HostRootTest, ShowsNothingElseOfTheHost) {
  std::set<std::string> etc;
  for (const auto& entry : std::filesystem::directory_iterator(skeleton_ + "/etc")) {
    etc.insert(entry.path().filename().string());
  }
  const std::set<std::string> known = {
      "passwd",       "group",      "nsswitch.conf", "hosts",       "resolv.conf",
      "hostname",     "ssl",        "mtab",          "os-release",  "ca-certificates.conf",
      "alternatives", "localtime",  "timezone",      "ld.so.cache", "ld.so.conf",
      "ld.so.conf.d", "shadow",     "bash.bashrc",   "profile",     "pam.d",
      "sudoers",      "login.defs", "apt",           "dpkg",        "debconf.conf",
      "fonts",        "mono",       "matplotlibrc"};
  for (const std::string& name : etc) {
    EXPECT_TRUE(known.contains(name) || (name.starts_with("java-") && name.ends_with("-openjdk"))) << name;
  }
  EXPECT_EQ(
      output_of(host_plan("ls -A /home /root /var/lib /run /srv /opt /mnt /home/sandbox", "a")),
      "/home:\nsandbox\n\n/home/sandbox:\n.bashrc\n\n/mnt:\n\n/opt:\n\n/root:\n.bashrc\n\n/run:\nlock\n\n/srv:\n\n"
      "/var/lib:\napt\ndpkg\n");
  EXPECT_FALSE(std::filesystem::exists(skeleton_ + "/etc/ssl/private"));
  for (const auto& entry : std::filesystem::directory_iterator(skeleton_ + "/etc/apt")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("auth.conf")) << entry.path();
  }
  EXPECT_THAT(sys::read_text(skeleton_ + "/etc/shadow").value_or("no file"), Not(HasSubstr("$")));
}

TEST_F(HostRootTest, CertificatesCanBeRead) {
  ASSERT_TRUE(std::filesystem::exists("/etc/ssl/certs/ca-certificates.crt")) << "run scripts/setup";
  EXPECT_EQ(
      output_of(host_plan("cat /etc/ssl/certs/ca-certificates.crt | wc -c; cat /etc/ssl/certs/*.pem > /dev/null", "a")),
      fmt::format("{}\n", std::filesystem::file_size("/etc/ssl/certs/ca-certificates.crt")));
}

TEST_F(HostRootTest, JavaFindsItsSettings) {
  EXPECT_EQ(
      output_of(host_plan("echo 'class A { public static void main(String[] a) { "
                          "System.out.println(java.security.Security.getProviders().length > 0); } }' > /tmp/A.java; "
                          "java /tmp/A.java",
                          "a")),
      "true\n")
      << "run scripts/setup";
}

TEST_F(HostRootTest, UsrIsWritableInAUpperOfItsOwn) {
  EXPECT_EQ(output_of(host_plan(
                "echo new > /usr/local/made && echo x > /usr/bin/tool && rm /usr/bin/env && ls /usr/local/made; "
                "touch /tmp/a /root/b /var/tmp/c /opt/d && echo all",
                "a")),
            "/usr/local/made\nall\n");
  EXPECT_EQ(on_disk("a/upper/usr").st_uid, 0U);
  EXPECT_EQ(on_disk("a/upper/usr/local/made").st_uid, 0U);
  EXPECT_TRUE(S_ISCHR(on_disk("a/upper/usr/bin/env").st_mode));
  EXPECT_TRUE(std::filesystem::exists("/usr/bin/env"));
  EXPECT_FALSE(std::filesystem::exists("/usr/local/made"));
}

TEST_F(HostRootTest, AnUpperIsALayerForTheNextSandbox) {
  ASSERT_EQ(output_of(host_plan("echo one > /usr/local/one; echo two > /opt/two; rm /usr/bin/env; rm -r /srv", "a")),
            "");
  EXPECT_EQ(output_of(host_plan("cat /usr/local/one /opt/two; ls /usr/bin/env 2>&1 | wc -l; ls -d /srv; ls /usr/bin/id",
                                "b", {(dir_ / "a/upper").string()})),
            "one\ntwo\n1\nls: /srv: No such file or directory\n/usr/bin/id\n");
}

TEST_F(HostRootTest, ReadOnlyRootCoversUsr) {
  auto wanted = host_plan("touch /usr/x; touch /x", "a");
  wanted.read_only_root = true;
  EXPECT_EQ(output_of(std::move(wanted)), "touch: /usr/x: Read-only file system\ntouch: /x: Read-only file system\n");
}

TEST_F(HostRootTest, SetuidProgramsWorkOnlyWithoutNoNewPrivileges) {
  for (const auto& [name, no_new_privileges, euid] : {std::tuple{"a", true, "1000\n"}, {"b", false, "0\n"}}) {
    auto wanted = host_plan("/opt/id -u", name);
    std::filesystem::create_directory(dir_ / name / "upper/opt");
    std::filesystem::copy_file("/usr/bin/id", dir_ / name / "upper/opt/id");
    std::filesystem::permissions(dir_ / name / "upper/opt/id", static_cast<std::filesystem::perms>(04755));
    wanted.uid = 1000;
    wanted.gid = 1000;
    wanted.no_new_privileges = no_new_privileges;
    EXPECT_EQ(output_of(std::move(wanted)), euid);
  }
}

TEST_F(HostRootTest, PackagesOfTheHostAreKnown) {
  EXPECT_EQ(output_of(host_plan("dpkg-query -W -f '${Status}\n' dpkg; cd /var/lib/dpkg/info && ls dpkg.list", "a")),
            "install ok installed\ndpkg.list\n");
}

TEST(HostCopy, FilesThatOthersMayNotReadAndCredentialsAreLeftOut) {
  EXPECT_TRUE(holds_credentials("deb https://user:secret@packages.example/debian stable main\n"));
  EXPECT_TRUE(holds_credentials("Acquire::http::Proxy \"http://token@proxy.example:3128\";"));
  EXPECT_TRUE(holds_credentials("deb http://a.example/ x\nURIs: https://u:p@b.example"));
  EXPECT_FALSE(holds_credentials("deb [signed-by=/usr/share/keyrings/a.gpg] https://packages.example/@scope stable"));
  EXPECT_FALSE(holds_credentials("# Maintainer: somebody@example.org\nURIs: http://deb.debian.org/debian\n"));

  const osb::testing::TempDir dir;
  const auto from = dir / "from";
  std::filesystem::create_directory(from);
  const auto put = [&](const char* name, const char* text, mode_t mode) {
    std::ofstream(from / name) << text;
    ::chmod((from / name).c_str(), mode);
  };
  put("open", "http://a.example", 0644);
  put("login", "http://u:p@a.example", 0644);
  put("closed", "secret", 0640);
  for (const auto& [how, wanted] : {std::pair{Take::Copy, std::set<std::string>{"open", "login"}},
                                    std::pair{Take::WithoutCredentials, std::set<std::string>{"open"}},
                                    std::pair{Take::Share, std::set<std::string>{"open", "login"}}}) {
    const std::string to = (dir / ("to" + std::to_string(static_cast<int>(how)))).string();
    ASSERT_TRUE(copy_from_host(from, to, how));
    std::set<std::string> there;
    for (const auto& entry : std::filesystem::directory_iterator(to)) there.insert(entry.path().filename().string());
    EXPECT_EQ(there, wanted);
    EXPECT_EQ(sys::read_text(to + "/open").value_or(""), "http://a.example");
  }
}

TEST_F(HostRootTest, SkeletonThatExistsIsLeftAlone) {
  std::ofstream(skeleton_ + "/marker") << "x";
  ASSERT_TRUE(build_host_skeleton(skeleton_));
  EXPECT_TRUE(std::filesystem::exists(skeleton_ + "/marker"));
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    entries += entry.path().string().starts_with(skeleton_);
  }
  EXPECT_EQ(entries, 1U) << "no temporary directory is left";
}

}  // namespace
}  // namespace osb::sandboxd
