#include "tls/route_signature.h"

#include <algorithm>
#include <charconv>

#include "tls/sha256.h"

namespace osb::tls {
namespace {

constexpr std::size_t kMaxExpiry = 13;  // 2^64 - 1 in base 36
constexpr std::size_t kDigits = 8;

bool is_base36(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }
bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

std::string length_prefix(std::size_t size) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xFF);
  return out;
}

std::string digest(std::string_view secret, std::string_view id, std::uint16_t port, std::string_view expiry) {
  std::string canonical = "v1\nshort\n";
  canonical.append(id).append("\n").append(std::to_string(port)).append("\n").append(expiry).append("\n");
  Sha256 hash;
  hash.update(length_prefix(secret.size()));
  hash.update(secret);
  hash.update(length_prefix(canonical.size()));
  hash.update(canonical);
  const Sha256Bytes bytes = hash.finish();
  std::string out;
  for (std::size_t i = 0; i < kDigits / 2; ++i) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out += kHex[bytes[i] >> 4];
    out += kHex[bytes[i] & 15];
  }
  return out;
}

bool same(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

std::string encode_route_expiry(std::uint64_t expires) {
  char text[kMaxExpiry];
  const auto [end, error] = std::to_chars(text, text + sizeof text, expires, 36);
  return {text, end};
}

std::optional<std::uint64_t> decode_route_expiry(std::string_view text) {
  if (text.empty() || text.size() > kMaxExpiry || !std::ranges::all_of(text, is_base36)) return std::nullopt;
  if (text.front() == '0' && text != "0") return std::nullopt;
  std::uint64_t expires = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), expires, 36);
  if (error != std::errc()) return std::nullopt;
  return expires;
}

bool is_route_signature(std::string_view text) {
  return text.size() == kDigits + 1 && std::ranges::all_of(text.substr(0, kDigits), is_hex) && is_base36(text.back());
}

RouteSignature sign_route(const RouteKey& key, std::string_view sandbox_id, std::uint16_t port, std::uint64_t expires) {
  RouteSignature out;
  out.expiry = encode_route_expiry(expires);
  out.signature = digest(key.secret, sandbox_id, port, out.expiry) + key.id;
  return out;
}

Result<void> verify_route(const RouteKeys& keys, std::string_view sandbox_id, std::uint16_t port,
                          const RouteSignature& given, std::uint64_t now) {
  const auto expires = decode_route_expiry(given.expiry);
  if (!expires) return fail(Code::InvalidRequest, "the expiry of the signed route is malformed");
  if (!is_route_signature(given.signature))
    return fail(Code::InvalidRequest, "the signature of the route is malformed");
  if (now > *expires) return fail(Code::Unauthorized, "the signed route has expired");
  const auto key = keys.find(given.signature.back());
  if (key == keys.end()) return fail(Code::Unauthorized, "the route is signed with an unknown key");
  const std::string wanted = digest(key->second, sandbox_id, port, given.expiry);
  if (!same(std::string_view(given.signature).substr(0, kDigits), wanted)) {
    return fail(Code::Unauthorized, "the signature of the route is wrong");
  }
  return {};
}

GatewayRoute gateway_route(RouteMode mode, std::string_view address, std::string_view sandbox_id, std::uint16_t port,
                           const std::optional<RouteSignature>& signature) {
  const auto joined = [&](char between) {
    std::string out = std::string(sandbox_id) + between + std::to_string(port);
    if (signature) out += between + signature->expiry + between + signature->signature;
    return out;
  };
  switch (mode) {
    case RouteMode::Wildcard:
      return {joined('-') + std::string(address.substr(address.find('*') + 1)), ""};
    case RouteMode::Header:
      return {std::string(address), joined('-')};
    case RouteMode::Uri:
      return {std::string(address) + "/" + joined('/'), ""};
  }
  return {};
}

}  // namespace osb::tls
