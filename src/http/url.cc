#include "http/url.h"

#include <algorithm>

#include "base/parse_number.h"
#include "base/text.h"
#include "http/headers.h"

namespace osb::http {

namespace {

// Value of a hex digit, or -1.
constexpr int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte of the escape at text[i] == '%', or -1 when it is not a whole one.
int escaped_byte(std::string_view text, std::size_t i) {
  if (text.size() - i < 3) return -1;
  const int high = hex_value(text[i + 1]);
  const int low = hex_value(text[i + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string form_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (const int byte = text[i] == '%' ? escaped_byte(text, i) : -1; byte >= 0) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_host(std::string_view host, bool bracketed) {
  if (host.empty()) return false;
  return std::ranges::all_of(host, [&](char c) {
    if (bracketed) return hex_value(c) >= 0 || c == ':' || c == '.';
    return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int byte = escaped_byte(text, i);
    if (byte <= 0) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text, std::string_view keep) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || keep.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

Query Query::parse(std::string_view query) {
  Query out;
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    out.pairs_.emplace_back(form_decode(pair.substr(0, equals)),
                            equals == std::string_view::npos ? std::string() : form_decode(pair.substr(equals + 1)));
  }
  return out;
}

const std::string* Query::find(std::string_view key) const {
  for (const auto& [name, value] : pairs_) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string_view Query::get(std::string_view key) const {
  const std::string* value = find(key);
  return value ? std::string_view(*value) : std::string_view();
}

std::vector<std::string> Query::all(std::string_view key) const {
  std::vector<std::string> out;
  for (const auto& [name, value] : pairs_) {
    if (name == key) out.push_back(value);
  }
  return out;
}

Result<Url> Url::parse(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    const bool secret = text.find('@') != std::string_view::npos;
    return fail(Code::InvalidRequest,
                secret ? "url: " + std::string(why) : "url \"" + std::string(text) + "\": " + std::string(why));
  };
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    return fail(Code::InvalidRequest, "url: blanks and control characters must be percent-encoded");
  }
  Url url;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return bad("expected http://, https:// or unix:");
  std::string_view rest = text.substr(colon + 1);
  const std::string_view scheme = text.substr(0, colon);
  if (iequals(scheme, "unix")) {
    url.scheme = "unix";
    if (rest.starts_with("///")) rest.remove_prefix(2);
    if (!rest.starts_with('/') || rest.starts_with("//")) return bad("expected an absolute socket path");
    url.host = rest;
    return url;
  }
  if (iequals(scheme, "http")) {
    url.scheme = "http";
    url.port = 80;
  } else if (iequals(scheme, "https")) {
    url.scheme = "https";
    url.port = 443;
  } else {
    return bad("expected http://, https:// or unix:");
  }
  if (!rest.starts_with("//")) return bad("expected // after the scheme");
  rest.remove_prefix(2);
  rest = rest.substr(0, rest.find('#'));  // a fragment is never sent

  const auto authority_end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, authority_end);
  const std::string_view target = rest.substr(authority_end);
  if (authority.find('@') != std::string_view::npos) {
    return bad("user and password do not belong into an address");
  }
  const bool bracketed = authority.starts_with('[');
  std::string_view port;
  if (bracketed) {
    const auto close = authority.find(']');
    if (close == std::string_view::npos) return bad("missing ]");
    url.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
  } else {
    const auto end = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, end);
    port = authority.substr(end);
  }
  if (!is_host(url.host, bracketed)) return bad("not a host name or address");
  if (!port.empty()) {
    if (port.front() != ':') return bad("unexpected text after the address");
    port.remove_prefix(1);
    url.port = parse_number<std::uint16_t>(port).value_or(0);
    if (url.port == 0) return bad("not a port");
  }
  if (target.starts_with('?')) {
    url.target = "/" + std::string(target);
  } else if (!target.empty()) {
    url.target = target;
  }
  return url;
}

}  // namespace osb::http
