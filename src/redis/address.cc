#include "redis/address.h"

#include <optional>

#include "base/parse_number.h"
#include "base/ports.h"
#include "http/url.h"

namespace osb::redis {
namespace {

constexpr int kMostDatabases = 1'000'000;

Failure refuse(std::string_view why) { return fail(Code::InvalidRequest, std::string(why)); }

std::optional<int> database_in(std::string_view text) {
  const auto number = parse_number<int>(text);
  return number && *number >= 0 && *number <= kMostDatabases ? number : std::nullopt;
}

Result<Address> parse_socket(std::string_view path) {
  Address out;
  if (path.starts_with("//")) path.remove_prefix(2);
  if (const auto query = path.find('?'); query != std::string_view::npos) {
    const std::string_view text = path.substr(query + 1);
    const auto database = text.starts_with("db=") ? database_in(text.substr(3)) : std::nullopt;
    if (!database) return refuse("expected unix:///path?db=NUMBER");
    out.database = *database;
    path = path.substr(0, query);
  }
  if (!path.starts_with('/')) return refuse("expected the absolute path of a socket");
  out.origin = "unix:" + std::string(path);
  return out;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  if (url.starts_with("unix:")) return parse_socket(url.substr(5));
  const bool secure = url.starts_with("rediss://");
  if (!secure && !url.starts_with("redis://")) return refuse("expected redis://, rediss:// or unix:/path");
  url.remove_prefix(secure ? 9 : 8);
  Address out;
  // A password may hold an escaped slash, never a plain one.
  const std::size_t slash = url.find('/');
  if (const std::string_view path = slash == std::string_view::npos ? "" : url.substr(slash + 1); !path.empty()) {
    const auto database = database_in(path);
    if (!database) return refuse("the part behind the host is the number of a database");
    out.database = *database;
  }
  url = url.substr(0, slash);
  if (const auto at = url.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = url.substr(0, at);
    url.remove_prefix(at + 1);
    const auto colon = login.find(':');
    if (colon == std::string_view::npos) return refuse("expected user:password or :password before the host");
    const auto user = http::percent_decode(login.substr(0, colon));
    const auto password = http::percent_decode(login.substr(colon + 1));
    if (!user || !password) return refuse("user or password has a broken percent escape");
    out.user = *user;
    out.password = *password;
  }
  const auto colon = url.rfind(':');
  const bool has_port = colon != std::string_view::npos && url.find(']', colon) == std::string_view::npos;
  const std::string_view host = has_port ? url.substr(0, colon) : url;
  const auto port = has_port ? parse_number<std::uint16_t>(url.substr(colon + 1)) : std::optional(kRedisPort);
  if (host.empty() || !port || *port == 0) return refuse("expected host or host:port");
  out.origin = (secure ? "https://" : "http://") + std::string(host) + ":" + std::to_string(*port);
  return out;
}

}  // namespace osb::redis
