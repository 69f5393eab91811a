#include "kubernetes/access.h"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/deadline.h"
#include "base/log.h"
#include "http/url.h"
#include "tls/connector.h"
#include "tls/transport.h"

namespace osb::kubernetes {
namespace {

using std::chrono::milliseconds;

std::optional<WatchedFile> watched(const Material& material) {
  if (material.file.empty()) return std::nullopt;
  return WatchedFile(material.file);
}

Result<std::string> content(const Material& material, std::optional<WatchedFile>& file) {
  if (!file) return material.inline_text;
  return file->read();
}

class ClusterConnector final : public http::Connector {
 public:
  ClusterConnector(net::any_io_executor executor, Access& access)
      : names_(tls::make_connector(std::move(executor))), access_(access) {}

  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin, milliseconds timeout) override {
    const Deadline until(timeout);
    const bool secure = origin.starts_with("https:");
    // The connector below knows names; TLS happens here, where the certificates are.
    if (secure) origin.replace(0, std::string_view("https:").size(), "http:");
    auto context = access_.context();
    if (!context) co_return Failure(context.error());
    auto made = co_await names_->connect(std::move(origin), timeout);
    if (!made) co_return made;
    notice_silence((*made)->native_fd());
    if (!secure) co_return made;
    co_return co_await tls::connect_tls(*context, std::move(*made), access_.tls_name(),
                                        std::max(until.left(), milliseconds(1)));
  }

 private:
  static void notice_silence(int fd) {
    const struct {
      int level, name, value;
    } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, 30},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 15},
                   {IPPROTO_TCP, TCP_KEEPCNT, 4}};
    for (const auto& [level, name, value] : options) ::setsockopt(fd, level, name, &value, sizeof value);
  }

  std::unique_ptr<http::Connector> names_;
  Access& access_;
};

}  // namespace

Access::Access(ClusterConfig config)
    : config_(std::move(config)),
      token_file_(watched(config_.token)),
      ca_file_(watched(config_.ca)),
      certificate_file_(watched(config_.certificate)),
      key_file_(watched(config_.key)),
      token_(config_.token.inline_text) {
  if (const auto url = http::Url::parse(config_.server)) {
    host_ = url->host;
    const std::string name = host_.contains(':') ? "[" + host_ + "]" : host_;
    origin_ = url->scheme + "://" + name + ":" + std::to_string(url->port);
    prefix_ = url->target.substr(0, url->target.find('?'));
    while (prefix_.ends_with('/')) prefix_.pop_back();
  }
}

std::string Access::tls_name() const { return config_.tls_name.empty() ? host_ : config_.tls_name; }

Result<std::string> Access::token() {
  if (!token_file_ || (!token_stale_ && !token_file_->changed())) return token_;
  auto fresh = token_file_->read();
  if (fresh) {
    token_ = std::move(*fresh);
    token_stale_ = false;
  } else if (token_.empty()) {
    return with_context("token of " + config_.origin, fresh.error());
  } else {
    log_warn("kubernetes token not readable, the old one stays in use", {{"error", fresh.error().message}});
  }
  return token_;
}

bool Access::forget_token() {
  if (!token_file_) return false;
  token_stale_ = true;
  return true;
}

bool Access::certificates_changed() const {
  const auto changed = [](const std::optional<WatchedFile>& file) { return file && file->changed(); };
  return context_ && (changed(ca_file_) || changed(certificate_file_) || changed(key_file_));
}

Result<std::shared_ptr<const tls::ClientContext>> Access::context() {
  if (!origin_.starts_with("https:")) return nullptr;
  if (context_ && !certificates_changed()) return context_;
  auto made = make_context();
  if (made) {
    context_ = std::move(*made);
  } else if (!context_) {
    return with_context("certificates of " + config_.origin, made.error());
  } else {
    log_warn("kubernetes certificates not usable, the old ones stay in use", {{"error", made.error().message}});
  }
  return context_;
}

Result<std::shared_ptr<const tls::ClientContext>> Access::make_context() {
  tls::ClientOptions options;
  options.insecure = config_.insecure;
  auto ca = content(config_.ca, ca_file_);
  if (!ca) return Failure(ca.error());
  options.ca_pem = std::move(*ca);
  if (!config_.certificate.empty()) {
    auto certificate = content(config_.certificate, certificate_file_);
    if (!certificate) return Failure(certificate.error());
    auto key = content(config_.key, key_file_);
    if (!key) return Failure(key.error());
    options.identity = tls::Identity{std::move(*certificate), std::move(*key)};
  }
  return tls::ClientContext::make(options);
}

std::unique_ptr<http::Connector> make_cluster_connector(net::any_io_executor executor, Access& access) {
  return std::make_unique<ClusterConnector>(std::move(executor), access);
}

}  // namespace osb::kubernetes
