// Answers of the providers of credentials, and bodies that name their entries. A value that was taken has no control
// characters; an error code is one word; a body that names entries can be filled and read again.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json.h"
#include "credentials/provider_answer.h"
#include "credentials/vault_body.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::credentials;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto check = [](std::string_view value) {
    if (value.empty() || value.size() > kMostBytes) std::abort();
    if (std::ranges::any_of(value, [](char c) { return c == '\n' || c == '\r' || c == '\0'; })) std::abort();
  };
  if (const auto value = parse_value(input)) check(value->view());
  if (const auto value = parse_kv2_answer(input, "value")) check(value->view());
  if (const auto token = parse_token_answer(input)) {
    check(token->value.view());
    if (token->lifetime && token->lifetime->count() <= 0) std::abort();
  }
  if (token_error(input).find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string::npos) std::abort();
  if (const auto body = VaultBody::parse(input)) {
    Entry entry;
    entry.name = "e";
    entry.hosts = {"api.example.com"};
    for (const auto& each : (*body)->named()) VaultBody::fill(each, entry, {.value = osb::vault::SecretText("v")});
    if (!osb::api::parse_json((*body)->serialize())) std::abort();
  }
  return 0;
}
