// Creates with a policy template, from the request to the record.

#include <fstream>

#include "server/service/sandbox_service_fixture.h"
#include "support/temp_dir.h"

namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::seconds;
using ::testing::HasSubstr;

class PolicyCreatesTest : public testing::SandboxServiceTest {
 protected:
  void SetUp() override {
    write("web.toml", "[overrides]\negress = [{action='deny', target='*.a.com'}, {action='allow', target='x.a.com'}]");
    write("learn.toml", "mode = 'audit'");
    library_ = *PolicyLibrary::open({dir_.path(), "web"});
    options_.policies = &library_;
    SandboxServiceTest::SetUp();
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }
  auto create_with(api::StringMap extensions, SandboxService::CreateOptions options = {.wait = seconds(10)}) {
    auto request = wanted();
    request.extensions = std::move(extensions);
    return await(io_, service_->create(std::move(request), *admin_, std::move(options)));
  }

  osb::testing::TempDir dir_;
  PolicyLibrary library_;
};

TEST_F(PolicyCreatesTest, RecordHasTheCompiledPolicyAndAToken) {
  const auto made = create_with({});
  ASSERT_TRUE(made) << made.error().message;
  const SandboxRecord& record = *made->record;
  ASSERT_TRUE(record.spec->network_policy);
  EXPECT_EQ(record.spec->network_policy->egress.size(), 2U);
  EXPECT_EQ(record.spec->extensions.at("policy.template"), "web");
  EXPECT_EQ(record.spec->extensions.at("policy.mode"), "enforce");
  EXPECT_FALSE(record.egress_token.empty());
}

TEST_F(PolicyCreatesTest, RequestCannotSetTheMode) {
  const auto made = create_with({{"policy.mode", "audit"}});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("/extensions/policy.mode: the server sets it"));
}

TEST_F(PolicyCreatesTest, AuditModeNeedsABackendThatHasIt) {
  const auto made = create_with({{"policy.template", "learn"}});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message,
              HasSubstr("/extensions/policy.template: this backend has no audit mode for network policies"));
}

// A create that repeats one that failed takes the request of the record, which has its policy already: the template
// would refuse its own rules, since the first of web denies what the second allows.
TEST_F(PolicyCreatesTest, RepeatedCreateGetsItsTemplateOnce) {
  backend_.create_error = Error(Code::Internal, "not this time");
  backend_.hold_creates = true;
  const SandboxService::CreateOptions options{.idempotency_key = "k", .fingerprint = "f", .wait = seconds(10)};
  auto first = net::co_spawn(io_, service_->create(wanted(), *admin_, options), net::use_future);
  until([&] { return backend_.creates.size() == 1; });
  auto second = net::co_spawn(io_, service_->create(wanted(), *admin_, options), net::use_future);
  io_.restart();
  io_.poll();
  backend_.release_creates();
  for (auto* each : {&first, &second}) {
    io_.restart();
    while (each->wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
    const auto answer = each->get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message, "not this time");
  }
}

}  // namespace
}  // namespace osb::server
