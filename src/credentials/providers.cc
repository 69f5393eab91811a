#include "credentials/providers.h"

#include <algorithm>

#include "async/timer.h"
#include "base/base64.h"
#include "credentials/command_output.h"
#include "credentials/provider_answer.h"
#include "credentials/secret_file.h"
#include "http/client.h"
#include "http/url.h"
#include "tls/connector.h"
#include "vault/wiping_resource.h"

namespace osb::credentials {
namespace {

Failure unavailable(std::string why) { return fail(Code::Unavailable, std::move(why)); }

// Adds "key=value" of a form.
void add_field(std::string& form, std::string_view key, std::string_view value) {
  if (!form.empty()) form += '&';
  form.append(key).append("=").append(http::percent_encode(value));
}

struct Answer {
  Answer(int code, std::string text) : status(code), body(std::move(text)) {}
  int status;
  vault::WipedString body;
};

// Sends to the entry's server, whose certificate must be good. Redirects are not followed.
net::awaitable<Result<std::unique_ptr<Answer>>> ask(const Entry& entry, http::Url url, http::ClientRequest request) {
  std::shared_ptr<const tls::ClientContext> context;
  if (!entry.ca_file.empty()) {
    tls::ClientOptions options;
    options.ca_file = entry.ca_file;
    auto made = tls::ClientContext::make(options);
    if (!made) co_return unavailable("ca_file: " + made.error().message);
    context = std::move(*made);
  }
  const std::string host = url.host.contains(':') ? "[" + url.host + "]" : url.host;
  http::Client client(tls::make_connector(co_await net::this_coro::executor, std::move(context)));
  request.confidential = true;
  request.headers.set("Accept", "application/json");
  auto response = co_await client.send("https://" + host + ":" + std::to_string(url.port), std::move(request));
  if (!response) co_return unavailable(response.error().message);
  auto body = co_await response->body->read_all(kMostBytes);
  if (!body) co_return unavailable("the answer: " + body.error().message);
  co_return std::make_unique<Answer>(response->status, std::move(*body));
}

Result<http::Url> https_url(const std::string& text) {
  auto url = http::Url::parse(text);
  if (!url) return unavailable("url: " + url.error().message);
  if (url->scheme != "https") return unavailable("url: only https is good enough for secrets");
  return url;
}

net::awaitable<Result<Fetched>> fetch_kv2(const Entry& entry) {
  auto url = https_url(entry.url);
  if (!url) co_return Failure(url.error());
  const auto token = read_secret_file(entry.token_file);
  if (!token) co_return with_context("token_file", token.error());
  std::string_view base = url->target;
  while (base.ends_with('/')) base.remove_suffix(1);
  http::ClientRequest request;
  request.target = std::string(base) + "/v1/" + http::percent_encode(entry.mount, "/") + "/data/" +
                   http::percent_encode(entry.path, "/");
  request.headers.set("X-Vault-Token", std::string(token->view()));
  request.headers.set("X-Vault-Request", "true");
  if (!entry.name_space.empty()) request.headers.set("X-Vault-Namespace", entry.name_space);
  auto answer = co_await ask(entry, std::move(*url), std::move(request));
  if (!answer) co_return Failure(answer.error());
  if ((*answer)->status != 200) co_return unavailable("the store answers " + std::to_string((*answer)->status));
  auto value = parse_kv2_answer((*answer)->body.text, entry.field);
  if (!value) co_return Failure(value.error());
  co_return Fetched{std::move(*value)};
}

net::awaitable<Result<Token>> fetch_token(const Entry& entry) {
  auto url = https_url(entry.url);
  if (!url) co_return Failure(url.error());
  const auto secret = read_secret_file(entry.client_secret_file);
  if (!secret) co_return with_context("client_secret_file", secret.error());
  // RFC 6749, section 2.3.1: both parts are encoded as in a form before they are joined.
  vault::WipedString pair(http::percent_encode(entry.client_id) + ":");
  const vault::WipedString encoded(http::percent_encode(secret->view()));
  pair.text.reserve(pair.text.size() + encoded.text.size());
  pair.text += encoded.text;
  http::ClientRequest request;
  request.method = "POST";
  request.target = url->target;
  request.headers.set("Authorization", "Basic " + encode_base64(pair.text));
  request.headers.set("Content-Type", "application/x-www-form-urlencoded");
  add_field(request.body, "grant_type", "client_credentials");
  if (!entry.scope.empty()) add_field(request.body, "scope", entry.scope);
  if (!entry.audience.empty()) add_field(request.body, "audience", entry.audience);
  auto answer = co_await ask(entry, std::move(*url), std::move(request));
  if (!answer) co_return Failure(answer.error());
  if ((*answer)->status != 200) {
    const std::string code = token_error((*answer)->body.text);
    co_return unavailable("the token endpoint answers " + std::to_string((*answer)->status) +
                          (code.empty() ? "" : " " + code));
  }
  co_return parse_token_answer((*answer)->body.text);
}

net::awaitable<Result<Fetched>> fetch_once(const Entry& entry, const Clock& clock) {
  Fetched out;
  std::optional<std::chrono::seconds> lifetime;
  if (entry.provider == "file") {
    auto value = read_secret_file(entry.file);
    if (!value) co_return Failure(value.error());
    out.value = std::move(*value);
  } else if (entry.provider == "command") {
    auto value = co_await command_output(entry.command);
    if (!value) co_return Failure(value.error());
    out.value = std::move(*value);
  } else if (entry.provider == "vault-kv2") {
    auto fetched = co_await fetch_kv2(entry);
    if (!fetched) co_return fetched;
    out = std::move(*fetched);
  } else {
    auto token = co_await fetch_token(entry);
    if (!token) co_return Failure(token.error());
    out.value = std::move(token->value);
    lifetime = token->lifetime;
  }
  set_times(out, lifetime, entry.refresh, std::chrono::floor<std::chrono::microseconds>(clock.now()));
  co_return out;
}

}  // namespace

void set_times(Fetched& fetched, std::optional<std::chrono::seconds> lifetime, std::chrono::seconds refresh,
               Timestamp now) {
  using std::chrono::seconds;
  if (refresh > seconds(0)) fetched.refresh_after = refresh;
  if (lifetime) {
    const seconds early = std::max(seconds(1), *lifetime * 4 / 5);
    fetched.refresh_after = std::min(fetched.refresh_after.value_or(early), early);
    fetched.expires = now + *lifetime;
  } else if (refresh > seconds(0)) {
    fetched.expires = now + 2 * refresh;
  }
}

net::awaitable<Result<Fetched>> fetch(Entry entry, const Clock& clock) {
  auto fetched = co_await with_timeout(fetch_once(entry, clock), entry.timeout);
  if (!fetched && fetched.error().code == Code::Timeout) {
    co_return unavailable("no answer within " + std::to_string(entry.timeout.count()) + " s");
  }
  co_return fetched;
}

}  // namespace osb::credentials
