#include "image/registry_client.h"

#include <algorithm>
#include <charconv>
#include <unistd.h>
#include <utility>

#include "api/json.h"
#include "async/timer.h"
#include "base/backoff.h"
#include "base/log.h"
#include "http/url.h"
#include "image/registry_auth.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::image {

namespace {

using http::ClientResponse;

constexpr int kMaxRedirects = 5;
constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kMaxToken = 1 << 20;
constexpr std::chrono::seconds kStall(60);

constexpr const char* kAccept =
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

bool is_loopback(std::string_view registry) {
  if (registry.starts_with("[::1]")) return true;
  const std::string_view host = registry.substr(0, registry.find(':'));
  const bool address = host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || address;
}

std::string origin_of(const http::Url& url) {
  const bool v6 = url.host.find(':') != std::string::npos;
  return url.scheme + "://" + (v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Between attempts.
constexpr std::chrono::milliseconds kFirstPause(100), kLastPause(6400);

bool may_work_later(const Error& error) { return error.code == Code::Unavailable || error.code == Code::Timeout; }

// bytes 100-199/200 -> 100
std::optional<std::uint64_t> range_start(std::string_view field) {
  if (!field.starts_with("bytes ")) return std::nullopt;
  field.remove_prefix(6);
  std::uint64_t start = 0;
  const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), start);
  if (failed != std::errc() || end == field.data() + field.size() || *end != '-') return std::nullopt;
  return start;
}

// The file a blob goes into, with the sum of its contents.
struct Sink {
  UniqueFd file;
  tls::Sha256 sum;
  std::uint64_t size = 0;

  Result<void> write(std::string_view bytes) {
    sum.update(bytes);
    auto written = sys::write_all_at(file.get(), size, bytes, "blob");
    if (written) size += bytes.size();
    return written;
  }
  void restart() {
    sum = tls::Sha256();
    size = 0;
  }
};

// The rest of a body into the sink, a piece at a time. References outlive the call.
net::awaitable<Result<void>> drain(http::BodySource& body, Sink& sink, std::uint64_t limit, BlockingPool& pool,
                                   const RegistryClient::Progress& progress) {
  std::string piece;
  for (bool more = true; more;) {
    const auto got = co_await body.read();
    // Bytes that came before the connection broke count.
    more = got && !got->empty();
    if (more) piece += *got;
    if (sink.size + piece.size() > limit) co_return fail(Code::InvalidRequest, "longer than its manifest says");
    if (!piece.empty() && (!more || piece.size() >= kPiece)) {
      auto wrote = co_await pool.run([&] { return sink.write(piece); });
      if (!wrote) co_return wrote;
      piece.clear();
      if (progress) progress(sink.size);
    }
    if (!got) co_return fail(Code::Unavailable, got.error().message);
  }
  co_return Result<void>();
}

}  // namespace

Error registry_refusal(int status, const std::string& what) {
  const std::string text = what + ": the registry answered " + std::to_string(status);
  if (status == 401) return {Code::Unauthorized, what + ": the registry wants (other) credentials"};
  if (status == 403) return {Code::Forbidden, what + ": the registry does not allow it"};
  if (status == 404) return {Code::NotFound, what + ": the registry does not have it"};
  if (status == 429 || status >= 500) return {Code::Unavailable, text};
  return {Code::Internal, text};
}

RegistryClient::RegistryClient(http::Client& client, BlockingPool& pool, Reference reference, RegistryAccess access)
    : client_(client), pool_(pool), reference_(std::move(reference)), access_(std::move(access)) {}

net::awaitable<Result<ClientResponse>> RegistryClient::ask(std::string origin, http::ClientRequest request) {
  auto response = co_await client_.send(origin, std::move(request));
  if (response || access_.explain_failures) co_return response;
  const Error& error = response.error();
  // The rules of the operator, a name that does not exist, and our own end say nothing about a port.
  if (error.code == Code::Forbidden || error.code == Code::NotFound || error.code == Code::Cancelled) {
    co_return response;
  }
  log_warn("registry not reached", {{"image", reference_.familiar()}, {"at", origin}, {"error", error.message}});
  co_return fail(Code::Unavailable, origin +
                                        " gives no usable answer: nothing listens there, the network is down, or the "
                                        "server has no certificate that this host trusts; the log of sandboxd says "
                                        "which");
}

// TLS, except where plain HTTP is allowed and TLS does not answer. Nothing secret is sent to find out.
net::awaitable<Result<void>> RegistryClient::find_origin() {
  if (!origin_.empty()) co_return Result<void>();
  const std::string host = reference_.registry_host();
  if (access_.plain_http) {
    origin_ = "http://" + host;
    co_return Result<void>();
  }
  if (is_loopback(host)) {
    http::ClientRequest ping;
    ping.target = "/v2/";
    const auto answer = co_await ask("https://" + host, std::move(ping));
    if (!answer && answer.error().code == Code::Forbidden) co_return Failure(answer.error());
    if (!answer) {
      http::ClientRequest plain;
      plain.target = "/v2/";
      const auto without_tls = co_await ask("http://" + host, std::move(plain));
      // Servers of TLS answer plain HTTP too, with 400.
      if (without_tls && (without_tls->status == 200 || without_tls->status == 401)) {
        origin_ = "http://" + host;
        co_return Result<void>();
      }
      co_return Failure(answer.error());
    }
  }
  origin_ = "https://" + host;
  co_return Result<void>();
}

net::awaitable<Result<ClientResponse>> RegistryClient::follow(std::string target, const http::Headers& headers) {
  const auto home = http::Url::parse(origin_);
  if (!home) co_return Failure(home.error());
  http::Url at = *home;
  at.target = std::move(target);
  for (int hops = 0; hops <= kMaxRedirects; ++hops) {
    http::ClientRequest request;
    request.target = at.target;
    request.headers = headers;
    request.timeouts.body_stall = kStall;
    if (origin_of(at) == origin_of(*home) && !authorization_.empty()) {
      request.headers.set("Authorization", authorization_);
    }
    auto response = co_await ask(origin_of(at), std::move(request));
    if (!response || !is_redirect(response->status)) co_return response;
    const std::string location(response->headers.get("Location"));
    if (location.starts_with('/') && !location.starts_with("//")) {
      at.target = location;
      continue;
    }
    auto next = http::Url::parse(location);
    if (!next || (next->scheme != "https" && next->scheme != "http")) {
      co_return fail(Code::Internal, "the registry redirects to something that is no URL");
    }
    if (next->scheme == "http" && home->scheme == "https") {
      co_return fail(Code::Forbidden, "the registry redirects from https to http://" + next->host);
    }
    at = std::move(*next);
  }
  co_return fail(Code::Internal, "the registry redirects without end");
}

net::awaitable<Result<void>> RegistryClient::fetch_token(std::string realm, std::string service) {
  auto url = http::Url::parse(realm);
  const bool plain = origin_.starts_with("http://");
  if (!url || (url->scheme != "https" && !(plain && url->scheme == "http"))) {
    co_return fail(Code::Unauthorized, "the registry names no usable token server");
  }
  http::ClientRequest request;
  request.target = url->target + (url->target.find('?') == std::string::npos ? "?" : "&");
  if (!service.empty()) request.target += "service=" + http::percent_encode(service) + "&";
  request.target +=
      "scope=" + http::percent_encode("repository:" + reference_.repository + ":pull" + (access_.push ? ",push" : ""));
  if (access_.credentials) {
    request.headers.set("Authorization",
                        basic_authorization(access_.credentials->username, access_.credentials->password));
  }
  auto response = co_await ask(origin_of(*url), std::move(request));
  if (!response) co_return with_context("token server", response.error());
  if (response->status != 200) co_return Failure(registry_refusal(response->status, "token server " + url->host));
  auto text = co_await response->body->read_all(kMaxToken);
  if (!text) co_return with_context("token server", text.error());
  auto value = api::parse_json(*text);
  if (!value) co_return fail(Code::Unauthorized, "token server " + url->host + ": its answer is no JSON");
  api::ObjectReader in(*value, {});
  std::string token = in.optional_string("token").value_or("");
  if (token.empty()) token = in.optional_string("access_token").value_or("");
  const bool header_safe = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; });
  if (token.empty() || !header_safe) co_return fail(Code::Unauthorized, "token server " + url->host + ": no token");
  authorization_ = "Bearer " + token;
  co_return Result<void>();
}

net::awaitable<Result<void>> RegistryClient::authenticate(const http::Headers& headers) {
  Challenge challenge = parse_challenge(headers);
  if (challenge.scheme == Challenge::Scheme::Bearer) {
    co_return co_await fetch_token(std::move(challenge.realm), std::move(challenge.service));
  }
  if (challenge.scheme != Challenge::Scheme::Basic || !access_.credentials) {
    co_return Failure(registry_refusal(401, reference_.familiar()));
  }
  authorization_ = basic_authorization(access_.credentials->username, access_.credentials->password);
  co_return Result<void>();
}

// 200 or 206, or an error. Answers a challenge once: the first time, or when a token has expired.
net::awaitable<Result<ClientResponse>> RegistryClient::get(std::string target, http::Headers headers) {
  if (auto known = co_await find_origin(); !known) co_return unreachable(known.error());
  for (bool challenged = false;; challenged = true) {
    auto response = co_await follow(target, headers);
    if (!response) co_return unreachable(response.error());
    if (response->status == 200 || response->status == 206) co_return response;
    if (response->status != 401 || challenged)
      co_return Failure(registry_refusal(response->status, reference_.familiar()));
    if (auto done = co_await answer_challenge(*response); !done) co_return Failure(done.error());
  }
}

Failure RegistryClient::unreachable(Error error) const {
  if (error.code == Code::Internal) error.code = Code::Unavailable;  // the peer has gone, or is not trusted
  return with_context(reference_.familiar(), std::move(error));
}

net::awaitable<Result<void>> RegistryClient::answer_challenge(ClientResponse& response) {
  const http::Headers challenge = response.headers;
  (void)co_await response.body->read_all(1 << 16);  // gives the connection back
  co_return co_await authenticate(challenge);
}

net::awaitable<Result<ClientResponse>> RegistryClient::call(const std::function<http::ClientRequest()>& make) {
  if (auto known = co_await find_origin(); !known) co_return unreachable(known.error());
  for (bool challenged = false;; challenged = true) {
    http::ClientRequest request = make();
    request.timeouts.body_stall = kStall;
    if (!authorization_.empty()) request.headers.set("Authorization", authorization_);
    auto response = co_await ask(origin_, std::move(request));
    if (!response) co_return unreachable(response.error());
    if (response->status != 401 || challenged) co_return response;
    if (auto done = co_await answer_challenge(*response); !done) co_return Failure(done.error());
  }
}

Result<std::string> RegistryClient::own_target(std::string_view location) const {
  if (location.starts_with('/') && !location.starts_with("//")) return std::string(location);
  const auto to = http::Url::parse(location), home = http::Url::parse(origin_);
  if (to && home && to->host == home->host && to->port == home->port) return to->target;
  return fail(Code::Forbidden,
              reference_.familiar() + ": the registry sends uploads to another host, which is not followed");
}

// A whole answer of at most `limit` bytes. Failures that may pass are tried again.
net::awaitable<Result<RegistryClient::Answer>> RegistryClient::get_whole(std::string target, http::Headers headers,
                                                                         std::size_t limit) {
  Backoff pause(kFirstPause, kLastPause);
  for (int attempt = 0;; ++attempt) {
    auto response = co_await get(target, headers);
    Result<std::string> text = response ? Result<std::string>() : Failure(response.error());
    if (response) text = co_await response->body->read_all(limit);
    if (text) co_return Answer{std::move(*text), std::move(response->headers)};
    if (response && text.error().code != Code::TooLarge) text.error().code = Code::Unavailable;
    if (attempt >= access_.retries || !may_work_later(text.error())) co_return Failure(text.error());
    if (!co_await sleep_for(pause.next())) co_return Failure(text.error());
  }
}

net::awaitable<Result<RegistryClient::Document>> RegistryClient::manifest(std::string name) {
  auto answer = co_await get_whole("/v2/" + reference_.repository + "/manifests/" + name, {{"Accept", kAccept}},
                                   kMaxManifestBytes);
  if (!answer) co_return Failure(answer.error());
  const Digest digest = Digest::of(answer->text);
  const std::string_view said = answer->headers.get("Docker-Content-Digest");
  const std::string wanted = name.starts_with("sha256:") ? name : std::string(said);
  if (wanted.starts_with("sha256:") && wanted != digest.to_string()) {
    co_return fail(Code::InvalidRequest, "manifest " + wanted + ": its content has the digest " + digest.to_string());
  }
  co_return Document{std::move(answer->text), std::string(answer->headers.get("Content-Type")), digest};
}

net::awaitable<Result<std::string>> RegistryClient::small_blob(Descriptor blob, std::size_t limit) {
  if (blob.size > limit) co_return fail(Code::TooLarge, "blob " + blob.digest.to_string() + ": too large");
  auto answer = co_await get_whole("/v2/" + reference_.repository + "/blobs/" + blob.digest.to_string(), {}, blob.size);
  if (!answer) co_return Failure(answer.error());
  if (Digest::of(answer->text) == blob.digest) co_return std::move(answer->text);
  co_return fail(Code::InvalidRequest, "blob " + blob.digest.to_string() + ": its content has another digest");
}

net::awaitable<Result<ResolvedImage>> RegistryClient::resolve(Platform platform) {
  auto document = co_await manifest(reference_.manifest_name());
  if (!document) co_return Failure(document.error());
  auto decoded = decode_manifest(document->text, document->media_type);
  if (!decoded) co_return with_context(reference_.familiar(), decoded.error());
  if (const Index* index = std::get_if<Index>(&*decoded)) {
    const auto chosen = choose_platform(*index, platform);
    if (!chosen) co_return with_context(reference_.familiar(), chosen.error());
    document = co_await manifest(chosen->digest.to_string());
    if (!document) co_return Failure(document.error());
    decoded = decode_manifest(document->text, document->media_type);
    if (!decoded) co_return with_context(reference_.familiar(), decoded.error());
  }
  const Manifest* found = std::get_if<Manifest>(&*decoded);
  if (found == nullptr) co_return fail(Code::Unsupported, reference_.familiar() + ": an index of indexes");
  for (const Descriptor& layer : found->layers) {
    if (!is_layer_media_type(layer.media_type)) {
      co_return fail(Code::Unsupported, reference_.familiar() + ": a layer of type '" + layer.media_type + "'");
    }
  }
  auto text = co_await small_blob(found->config, kMaxConfigBytes);
  if (!text) co_return with_context(reference_.familiar(), text.error());
  auto config = decode_image_config(*text);
  if (!config) co_return with_context(reference_.familiar(), config.error());
  if (config->diff_ids.size() != found->layers.size()) {
    co_return fail(Code::InvalidRequest,
                   reference_.familiar() + ": manifest and config differ in the number of layers");
  }
  if (auto fits = check_platform(config->platform, platform); !fits) {
    co_return with_context(reference_.familiar(), fits.error());
  }
  co_return ResolvedImage{document->digest, *found, std::move(*text), std::move(*config)};
}

net::awaitable<Result<void>> RegistryClient::download(Descriptor blob, std::filesystem::path file, Progress progress) {
  auto opened = sys::open_at(AT_FDCWD, file.string(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (!opened) co_return Failure(opened.error());
  Sink sink{std::move(*opened), {}, 0};
  const std::string name = "blob " + blob.digest.to_string();
  const std::string target = "/v2/" + reference_.repository + "/blobs/" + blob.digest.to_string();
  Backoff pause(kFirstPause, kLastPause);
  for (int attempt = 0; sink.size < blob.size || attempt == 0;) {
    http::Headers headers;
    if (sink.size > 0) headers.set("Range", "bytes=" + std::to_string(sink.size) + "-");
    const std::uint64_t before = sink.size;
    auto response = co_await get(target, std::move(headers));
    Result<void> done = response ? Result<void>() : Failure(response.error());
    if (response) {
      // A server that cannot resume sends everything again.
      if (response->status == 200) sink.restart();
      if (response->status == 206 && range_start(response->headers.get("Content-Range")) != sink.size) {
        co_return fail(Code::Internal, name + ": the registry sent another range than asked for");
      }
      done = co_await drain(*response->body, sink, blob.size, pool_, progress);
    }
    if (done && sink.size == blob.size) break;
    if (done) done = fail(Code::InvalidRequest, "shorter than its manifest says");
    if (!may_work_later(done.error())) co_return with_context(name, done.error());
    // Attempts count only while nothing comes.
    if (sink.size > before) pause.reset();
    attempt = sink.size > before ? 1 : attempt + 1;
    if (attempt > access_.retries) co_return with_context(name, done.error());
    if (!co_await sleep_for(pause.next())) co_return with_context(name, done.error());
  }
  if (const Digest is(sink.sum.finish()); is != blob.digest) {
    co_return fail(Code::InvalidRequest, name + ": its content has the digest " + is.to_string());
  }
  if (::ftruncate(sink.file.get(), static_cast<off_t>(sink.size)) < 0)
    co_return sys::from_errno("truncate blob", errno);
  co_return Result<void>();
}

}  // namespace osb::image
