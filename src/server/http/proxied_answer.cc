#include "server/http/proxied_answer.h"

#include <algorithm>
#include <array>
#include <optional>

namespace osb::server {
namespace {

using http::Headers;
using http::iequals;

// Each holds for all of an origin, or for the domain above it.
constexpr std::array<std::string_view, 9> kOriginWide = {"Service-Worker-Allowed",
                                                         "Clear-Site-Data",
                                                         "Strict-Transport-Security",
                                                         "Public-Key-Pins",
                                                         "Alt-Svc",
                                                         "NEL",
                                                         "Report-To",
                                                         "Reporting-Endpoints",
                                                         "Set-Login"};

// Everything but allow-same-origin, and no way to move the page around it.
constexpr std::string_view kSandboxed =
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock "
    "allow-orientation-lock";

// Types that a browser does not run as a document. A list of types is not among them: browsers take its last.
bool is_inert(std::string_view content_type) {
  if (content_type.contains(',')) return false;
  const std::string_view type = http::trim_ows(content_type.substr(0, content_type.find(';')));
  return iequals(type, "application/json") || iequals(type, "text/event-stream") ||
         iequals(type, "application/octet-stream") || iequals(type, "text/plain");
}

bool may_be_document(const Headers& headers) {
  bool given = false;
  for (const auto& [name, value] : headers) {
    if (!iequals(name, "Content-Type")) continue;
    if (!is_inert(value)) return true;
    given = true;
  }
  return !given;  // a browser would guess
}

bool is_inside(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

void confine_cookies(Headers& headers, std::string_view prefix) {
  if (!headers.contains("Set-Cookie")) return;
  Headers out;
  out.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    out.add(name, iequals(name, "Set-Cookie") ? confined_cookie(value, prefix) : value);
  }
  headers = std::move(out);
}

}  // namespace

std::string confined_cookie(std::string_view cookie, std::string_view prefix) {
  std::string out;
  std::string_view path = prefix;
  for (std::size_t begin = 0; begin <= cookie.size();) {
    const std::size_t end = std::min(cookie.find(';', begin), cookie.size());
    const std::string_view part = cookie.substr(begin, end - begin);
    const std::string_view name = http::trim_ows(part.substr(0, part.find('=')));
    const bool attribute = begin > 0;
    begin = end + 1;
    if (attribute && iequals(name, "Domain")) continue;
    if (attribute && iequals(name, "Path") && !prefix.empty()) {
      const std::size_t equals = part.find('=');
      const auto given =
          equals == std::string_view::npos ? std::string_view() : http::trim_ows(part.substr(equals + 1));
      path = is_inside(given, prefix) ? given : prefix;  // of several the last counts
      continue;
    }
    if (attribute) out += ';';
    out += part;
  }
  if (!path.empty()) out.append("; Path=").append(path);
  return out;
}

void confine_to_path(Headers& headers, std::string_view prefix) {
  headers.remove_if([](const Headers::Field& field) {
    return std::ranges::any_of(kOriginWide, [&](std::string_view name) { return iequals(field.name, name); });
  });
  confine_cookies(headers, prefix);
  // Beside the port's own policy; browsers apply both.
  if (may_be_document(headers)) headers.add("Content-Security-Policy", std::string(kSandboxed));
}

void confine_to_host(Headers& headers) {
  headers.remove("Clear-Site-Data");
  confine_cookies(headers, "");
}

}  // namespace osb::server
