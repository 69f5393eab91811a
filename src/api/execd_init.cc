#include "api/execd_init.h"

#include <boost/json/serialize.hpp>

#include "api/json.h"

namespace osb::api {
namespace {

constexpr std::size_t kMaxSandboxId = 128;
constexpr std::size_t kMaxAttributes = 64;
constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::size_t kHashDigits = 64;

std::string token_hash(ObjectReader& r) {
  const std::string text = r.optional_string("accessTokenHash").value_or("");
  if (text.empty()) return {};
  std::string digits = text.starts_with(kHashPrefix) ? text.substr(kHashPrefix.size()) : "";
  for (char& c : digits) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  if (digits.size() != kHashDigits || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    r.reject("accessTokenHash", "expected sha256: and 64 hexadecimal digits");
  }
  return digits;
}

std::map<std::string, std::string> plain_map(ObjectReader& r, std::string_view name) {
  auto map = r.string_map(name).value_or(std::map<std::string, std::string>());
  for (const auto& [key, value] : map) {
    const bool bad = key.empty() || key.contains('=') || key.contains('\0') || value.contains('\0');
    if (bad) r.reject(name, "names must not be empty nor contain '=', and nothing may contain a NUL byte");
  }
  return map;
}

}  // namespace

Result<InitializeExecd> decode_initialize_execd(std::string_view body) {
  auto value = parse_json(body, {.ignore_trailing = true});
  if (!value) {
    value.error().reason = kExecdReading.reason;
    return Failure(value.error());
  }
  ObjectReader r(*value, kExecdReading);
  InitializeExecd out;
  out.sandbox_id = r.required_string("sandboxId");
  if (out.sandbox_id.size() > kMaxSandboxId) r.reject("sandboxId", "must have at most 128 characters");
  if (out.sandbox_id.contains('\0')) r.reject("sandboxId", "must not contain a NUL byte");
  out.generation = r.required_int64("generation", 1);
  const std::string policy = r.optional_string("entrypointPolicy").value_or("keep");
  if (policy != "keep" && policy != "restart") r.reject("entrypointPolicy", "expected keep or restart");
  out.restart_entrypoint = policy == "restart";
  out.access_token_hash = token_hash(r);
  out.envs = plain_map(r, "envs");
  if (const json::value* lifecycle = r.find("lifecycle"); lifecycle != nullptr) {
    out.lifecycle = json::serialize(*lifecycle);
  }
  r.object("telemetry", [&](ObjectReader& telemetry) {
    out.telemetry_attributes = plain_map(telemetry, "attributes");
    if (out.telemetry_attributes.size() > kMaxAttributes) telemetry.reject("attributes", "must be at most 64");
  });
  if (auto done = r.finish(); !done) return Failure(std::move(done.error()));
  return out;
}

}  // namespace osb::api
