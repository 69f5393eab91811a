#pragma once

#include <string>

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "policy/matcher.h"
#include "vault/vault.h"

namespace osb::vault::testing {

inline constexpr std::string_view kPolicy =
    R"({"defaultAction":"deny","egress":[{"action":"deny","target":"closed.example.com"},
        {"action":"allow","target":"*.example.com"},{"action":"allow","target":"api.other.org"}]})";

inline std::unique_ptr<policy::Matcher> matcher(std::string_view text = kPolicy) {
  auto read = policy::parse_policy(text);
  EXPECT_TRUE(read) << read.error().message;
  return std::make_unique<policy::Matcher>(*read);
}

inline Result<Vault> make_vault(std::string_view body, std::string_view policy = kPolicy) {
  auto request = parse_create(body);
  if (!request) return Failure(request.error());
  return Vault::create(std::move(*request), *matcher(policy));
}

inline Result<Vault> patch(const Vault& vault, std::string_view body, std::string_view policy = kPolicy) {
  auto request = parse_patch(body);
  if (!request) return Failure(request.error());
  return vault.patched(std::move(*request), *matcher(policy));
}

// "" for success.
inline std::string refusal(std::string_view body, std::string_view policy = kPolicy) {
  const auto made = make_vault(body, policy);
  if (made) return {};
  EXPECT_EQ(made.error().code, Code::InvalidRequest);
  return made.error().message;
}

// A body with one credential and one binding; `match` and `auth` are the inside of their objects.
inline std::string one_binding(const std::string& match, const std::string& auth) {
  return R"({"credentials":[{"name":"c","source":{"type":"inline","value":"s3cret-value"}}],"bindings":[{"name":"b","match":{)" +
         match + R"(},"auth":{)" + auth + "}}]}";
}

inline std::string with_host(const std::string& host) {
  return one_binding("\"hosts\":[\"" + host + "\"]", R"("type":"bearer","credential":"c")");
}

inline std::string text(const api::json::object& object) { return boost::json::serialize(object); }

}  // namespace osb::vault::testing
