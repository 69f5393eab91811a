// Bodies of the credential vault and paths of requests. A vault that was taken survives its stored form, shows no
// value, and decides about a request without putting a secret into a refusal.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/json/serialize.hpp>

#include "vault/path.h"
#include "vault/vault.h"

namespace {

using namespace osb::vault;

void check(const Vault& vault, std::string_view target) {
  const auto stored = vault.to_stored();
  const auto back = Vault::restore(stored);
  if (!back || osb::api::json::serialize(back->to_stored()) != osb::api::json::serialize(stored)) std::abort();
  const auto injector = vault.injector();
  if (!injector) std::abort();
  const HeaderView headers[] = {{"X-Key", target}};
  for (const char* host : {"api.example.com", "a.b.example.com"}) {
    const Decision decision = (*injector)->decide({.scheme = "https",
                                                   .host = host,
                                                   .method = "GET",
                                                   .target = target,
                                                   .headers = headers,
                                                   .port = 443,
                                                   .verified = true});
    if ((decision.status != 0) != !decision.message.empty()) std::abort();
    if (decision.outcome == Outcome::Injected && !decision.redactions) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static const osb::policy::Matcher policy(*osb::policy::parse_policy(R"({"defaultAction":"allow"})"));
  const RequestPath path = read_path(input);
  if (!path.ambiguous && read_path(path.normal).normal != path.normal) std::abort();

  if (auto request = parse_create(input)) {
    if (const auto vault = Vault::create(std::move(*request), policy)) check(*vault, input);
  }
  const auto old =
      Vault::create(*parse_create(R"({"credentials":[{"name":"c","source":{"value":"v"}}],"bindings":[{"name":"b",
        "match":{"hosts":["api.example.com"],"paths":["/v1/*"]},"auth":{"type":"bearer","credential":"c"}}]})"),
                    policy);
  check(*old, input);
  if (auto request = parse_patch(input)) {
    if (const auto vault = old->patched(std::move(*request), policy)) {
      if (vault->revision() != 2) std::abort();
      check(*vault, input);
    }
  }
  if (const auto value = osb::api::parse_json(input)) {
    if (const auto vault = Vault::restore(*value)) check(*vault, input);
  }
  return 0;
}
