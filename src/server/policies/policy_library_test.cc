#include "server/policies/policy_library.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PolicyLibraryTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }
  PolicyLibrary open(const std::string& default_template = "") {
    auto out = PolicyLibrary::open({dir_.path(), default_template});
    EXPECT_TRUE(out) << out.error().message;
    return out ? std::move(*out) : PolicyLibrary();
  }
  static std::string applied(const PolicyLibrary& library, api::CreateSandbox& wanted, const std::string& no = "") {
    const auto ok = apply_template(library, no, wanted);
    if (!ok) return ok.error().message;
    if (!wanted.network_policy) return "no policy";
    std::string out = wanted.network_policy->default_action + ":";
    for (const auto& rule : wanted.network_policy->egress) out += " " + rule.action + " " + rule.target;
    return out + ", " + wanted.extensions.at("policy.mode") + " " + wanted.extensions.at("policy.template");
  }
  static api::CreateSandbox naming(const std::string& name) {
    api::CreateSandbox out;
    out.extensions["policy.template"] = name;
    return out;
  }

  testing::TempDir dir_;
};

TEST_F(PolicyLibraryTest, WrongFileKeepsTheOldTemplates) {
  write("a.toml", "capabilities = ['pypi']");
  PolicyLibrary library = open();
  EXPECT_EQ(library.templates().size(), 1U);
  write("b.toml", "capabilities = ['pipy']");
  const auto refused = library.reload();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("b.toml:1:17: capabilities: unknown capability \"pipy\"; did you mean"));
  EXPECT_EQ(library.templates().size(), 1U);
  write("b.toml", "");
  EXPECT_EQ(library.reload(), true);
  EXPECT_EQ(library.templates().size(), 2U);
  EXPECT_EQ(library.reload(), false) << "nothing has changed";
  std::filesystem::remove(dir_ / "a.toml");
  EXPECT_EQ(library.reload(), true);
  EXPECT_FALSE(library.templates().contains("a"));
}

TEST_F(PolicyLibraryTest, MissingDefaultOrDirectoryIsAnError) {
  write("python.toml", "");
  EXPECT_THAT(PolicyLibrary::open({dir_.path(), "pyton"}).error().message,
              HasSubstr("has no template pyton; did you mean python?"));
  EXPECT_THAT(PolicyLibrary::open({dir_ / "none", ""}).error().message, StartsWith("[policies] directory: "));
  PolicyLibrary library = open("python");
  std::filesystem::remove(dir_ / "python.toml");
  EXPECT_FALSE(library.reload()) << "the default template stays";
  EXPECT_TRUE(library.templates().contains("python"));
}

TEST_F(PolicyLibraryTest, CompilesTextsThatExtendStoredTemplates) {
  write("base.toml", "[overrides]\negress = [{action = 'deny', target = 'a.com'}]");
  const PolicyLibrary library = open();
  const auto compiled = library.compile("name = 'base2'\nextends = 'base'", "x.toml");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->rules.size(), 1U);
  EXPECT_TRUE(library.compile("name = 'base'", "x.toml")->rules.empty()) << "the text takes the stored one's place";
  EXPECT_THAT(library.compile("extends = 'bas'", "x.toml").error().message, StartsWith("x.toml:1:11: "));
}

TEST_F(PolicyLibraryTest, CreateGetsTheTemplateItNamesOrTheDefault) {
  write("open.toml", "[overrides]\negress = [{action = 'allow', target = '*.a.com'}]");
  write("closed.toml", "");
  write("learn.toml", "mode = 'audit'");
  const PolicyLibrary library = open("closed");
  auto wanted = naming("open");
  EXPECT_EQ(applied(library, wanted), "deny: allow *.a.com, enforce open");
  api::CreateSandbox plain;
  EXPECT_EQ(applied(library, plain), "deny:, enforce closed");
  wanted = naming("learn");
  EXPECT_EQ(applied(library, wanted), "deny:, audit learn");
  wanted = naming("opne");
  EXPECT_EQ(applied(library, wanted),
            "/extensions/policy.template: no policy template is called \"opne\"; did you mean open?");
  wanted = naming("");
  EXPECT_THAT(applied(library, wanted), StartsWith("/extensions/policy.template: no policy template is called \"\""));
  api::CreateSandbox none;
  EXPECT_EQ(applied(PolicyLibrary(), none), "no policy");
}

TEST_F(PolicyLibraryTest, NetworkPolicyMayOnlyNarrowTheTemplate) {
  write("open.toml", "[overrides]\negress = [{action = 'allow', target = '*.a.com'}]");
  write("learn.toml", "mode = 'audit'");
  const PolicyLibrary library = open("open");
  api::CreateSandbox wanted;
  wanted.network_policy = api::NetworkPolicy{"deny", {{"allow", "x.a.com"}}};
  EXPECT_EQ(applied(library, wanted), "deny: allow x.a.com, enforce open");
  api::CreateSandbox wide;
  wide.network_policy = api::NetworkPolicy{"deny", {{"allow", "x.a.com"}, {"allow", "b.com"}}};
  EXPECT_EQ(applied(library, wide),
            "/networkPolicy/egress/1/target: \"b.com\" is more than the policy template allows; networkPolicy may only "
            "narrow it (template open)");
  api::CreateSandbox wrong;
  wrong.network_policy = api::NetworkPolicy{"deny", {{"allow", "*"}}};
  EXPECT_THAT(applied(library, wrong), StartsWith("/networkPolicy/egress/0/target: \"*\": "));
  auto learn = naming("learn");
  learn.network_policy = api::NetworkPolicy{};
  EXPECT_THAT(applied(library, learn), StartsWith("/networkPolicy: cannot be combined with the policy template learn"));
}

TEST_F(PolicyLibraryTest, BackendThatEnforcesNothingRefusesTemplates) {
  write("t.toml", "");
  auto wanted = naming("t");
  EXPECT_EQ(applied(open(), wanted, "not here"), "/extensions/policy.template: not here");
  api::CreateSandbox plain;
  EXPECT_EQ(applied(open("t"), plain, "not here"),
            "/extensions/policy.template: the server's default policy template t cannot be enforced: not here");
}

}  // namespace
}  // namespace osb::server
