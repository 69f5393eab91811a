#include "server/http/gateway_endpoint.h"

#include <algorithm>
#include <string>

#include "tls/sha256.h"

namespace osb::server {
namespace {

constexpr std::string_view kRouteHeader = "OpenSandbox-Ingress-To";
constexpr std::size_t kSignatureBytes = 4;

std::string base36(std::uint64_t number) {
  std::string out;
  do {
    out += "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
    number /= 36;
  } while (number > 0);
  std::ranges::reverse(out);
  return out;
}

// Length, in four bytes of network order, and text.
std::string measured(std::string_view text) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(text.size() >> shift & 0xff);
  return out + std::string(text);
}

// The first bytes of the sum, and the name of the key.
std::string signature(const config::SigningKey& key, std::string_view id, std::string_view port,
                      std::string_view expires) {
  std::string text;
  for (const std::string_view line : {std::string_view("v1"), std::string_view("short"), id, port, expires}) {
    text += line;
    text += '\n';
  }
  const auto sum = tls::sha256(measured(key.secret) + measured(text));
  std::string out;
  for (std::size_t i = 0; i < kSignatureBytes; ++i) {
    out += "0123456789abcdef"[sum[i] >> 4];
    out += "0123456789abcdef"[sum[i] & 15];
  }
  return out + key.key_id;
}

}  // namespace

api::Endpoint gateway_endpoint(const config::IngressSection& gateway, std::string_view id, std::uint16_t port,
                               std::optional<std::uint64_t> expires) {
  std::vector<std::string> parts = {std::string(id), std::to_string(port)};
  const auto key = std::ranges::find(gateway.keys, gateway.active_key, &config::SigningKey::key_id);
  if (expires && key != gateway.keys.end()) {
    parts.push_back(base36(*expires));
    parts.push_back(signature(*key, parts[0], parts[1], parts[2]));
  }
  const auto joined = [&](char between) {
    std::string out;
    for (const std::string& part : parts) out += (out.empty() ? "" : std::string(1, between)) + part;
    return out;
  };
  std::string_view address = gateway.address;
  while (address.ends_with('/')) address.remove_suffix(1);
  if (gateway.route_mode == "uri") return {std::string(address) + "/" + joined('/'), {}};
  if (gateway.route_mode == "header") return {std::string(address), {{std::string(kRouteHeader), joined('-')}}};
  if (address.starts_with("*.")) address.remove_prefix(2);
  return {joined('-') + "." + std::string(address), {}};
}

}  // namespace osb::server
