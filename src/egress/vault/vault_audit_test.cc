#include "egress/vault/vault_audit.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/log.h"

namespace osb::egress {
namespace {

TEST(VaultAudit, EveryUseIsCountedAndLeavesOneLineWithoutValues) {
  const std::string path = ::testing::TempDir() + "/credential-audit-" + std::to_string(::getpid()) + ".log";
  ASSERT_TRUE(configure_log({.format = LogFormat::Json, .outputs = {path}}));
  net::io_context io(1);
  AuditTrail trail(io.get_executor());
  VaultAudit audit([&](std::string_view id) { return id == "sb" ? &trail : nullptr; });
  const VaultAudit::Request request{.sandbox_id = "sb",
                                    .host = "api.example.com",
                                    .method = "GET",
                                    .request_id = "r1",
                                    .status_code = 200,
                                    .took = std::chrono::milliseconds(3)};
  vault::Decision injected{.outcome = vault::Outcome::Injected,
                           .binding = "b",
                           .path_pattern = "/v1/*",
                           .header_names = "Authorization",
                           .revision = 4};
  injected.headers.push_back({"Authorization", vault::SecretText("Bearer s3cret-value")});
  audit.request(request, injected);
  audit.request(request, {.outcome = vault::Outcome::Denied, .binding = "b"});
  audit.request(request, {.outcome = vault::Outcome::AmbiguousMatch});
  audit.request(request, {.outcome = vault::Outcome::SourceError, .binding = "b"});
  audit.request(request, {});
  audit.count_mutation(true);
  audit.count_mutation(false);
  ASSERT_TRUE(configure_log({}));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const std::string log = text.str();
  EXPECT_EQ(std::ranges::count(log, '\n'), 4) << log;
  for (const char* part :
       {R"("operation":"inject")", R"("decision":"injected")", R"("decision":"denied")",
        R"("decision":"ambiguous_match")", R"("decision":"source_error")", R"("credential_binding":"b")",
        R"("credential_vault_revision":4)", R"("target_host":"api.example.com")", R"("path_pattern":"/v1/*")",
        R"("headers":"Authorization")", R"("request_id":"r1")"}) {
    EXPECT_TRUE(log.contains(part)) << part << " in " << log;
  }
  EXPECT_FALSE(log.contains("s3cret-value"));

  std::uint64_t seen = 0;
  const auto lines = trail.since(seen);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(seen, 4u);
  EXPECT_TRUE(lines[0].contains(R"("decision":"injected")")) << lines[0];
  EXPECT_TRUE(lines[0].contains(R"("credential_vault_revision":4)")) << lines[0];
  for (const std::string& line : lines) EXPECT_FALSE(line.contains("s3cret-value")) << line;
  EXPECT_TRUE(trail.since(seen).empty());

  std::map<std::string_view, std::uint64_t> counters;
  for (const auto& [name, value] : audit.metrics().counters()) counters[name] = value;
  EXPECT_EQ(counters["opensandbox_credential_proxy_requests_total"], 5);
  EXPECT_EQ(counters["opensandbox_credential_proxy_injections_total"], 1);
  EXPECT_EQ(counters["opensandbox_credential_proxy_denials_total"], 2);
  EXPECT_EQ(counters["opensandbox_credential_proxy_source_errors_total"], 1);
  EXPECT_EQ(counters["opensandbox_credential_vault_mutations_total"], 1);
  EXPECT_EQ(counters["opensandbox_credential_vault_mutation_failures_total"], 1);
  EXPECT_EQ(audit.metrics().durations()[2], 5);
}

TEST(AuditTrail, TheOldestLinesGoWhenThereAreTooMany) {
  net::io_context io(1);
  AuditTrail trail(io.get_executor());
  for (std::size_t i = 0; i < AuditTrail::kMost + 2; ++i) trail.add(std::to_string(i));
  std::uint64_t seen = 0;
  const auto all = trail.since(seen);
  ASSERT_EQ(all.size(), AuditTrail::kMost);
  EXPECT_EQ(all.front(), "2");
  seen -= 1;
  EXPECT_EQ(trail.since(seen), std::vector<std::string>{std::to_string(AuditTrail::kMost + 1)});
}

}  // namespace
}  // namespace osb::egress
