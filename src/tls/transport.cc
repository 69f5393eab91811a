#include "tls/transport.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <openssl/x509v3.h>

#include "http/linger.h"
#include "http/response_writer.h"
#include "tls/openssl.h"
#include "tls/resolver.h"

namespace osb::tls {
namespace {

using http::Transport;
using Io = Transport::Io;

constexpr std::size_t kRecord = 16 * 1024;
constexpr std::size_t kMaxStuck = 64 * 1024;

Io failed(int error) { return {.kind = Io::Kind::Failed, .error = error}; }
Io again(Transport::Wait what) { return {.kind = Io::Kind::Again, .wait_for = what}; }
Io done(std::size_t bytes) { return {.kind = Io::Kind::Done, .bytes = bytes}; }

const std::string_view& protocols_of(Offer offer) {
  return offer == Offer::Http1 ? kOnlyHttp1 : offer == Offer::Http2 ? kOnlyHttp2 : kHttp2Or1;
}

// The names in a certificate, for the error message when the client used another name.
std::string names_of(const X509* certificate) {
  std::string names;
  auto* list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list) && names.size() < 200; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    if (name->type != GEN_DNS) continue;
    if (!names.empty()) names += ", ";
    names.append(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                 static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
  }
  GENERAL_NAMES_free(list);
  return names;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(SSL_CTX* context, std::unique_ptr<Transport> inner) : inner_(std::move(inner)), ssl_(SSL_new(context)) {
    static BIO_METHOD* const method = make_bio_method();
    BIO* bio = BIO_new(method);
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);  // takes it over
  }

  SSL* ssl() { return ssl_.get(); }

  bool chose_http2() const {
    const unsigned char* name = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &size);
    return size == 2 && std::memcmp(name, "h2", 2) == 0;
  }

  // Records of TLS begin with a small number, requests with the name of a method.
  bool peer_speaks_http() const { return first_byte_ >= 'A' && first_byte_ <= 'Z'; }

  // After a handshake that failed: in clear text, to a client that speaks plain HTTP.
  net::awaitable<void> refuse_http() {
    http::Response response =
        http::problem(400, "GENERAL::BAD_REQUEST", "this port speaks HTTPS: use https:// instead of http://");
    const std::string body = std::get<std::string>(std::move(response.body));
    std::string answer;
    http::append_head(answer, response, body.size(), false, false, 1);
    answer += body;
    inner_->set_timeout(std::chrono::seconds(2));
    if (co_await inner_->write_all(answer)) co_await http::linger(*inner_);
  }

  // The certificate must be for `host`. False: no certificate can be.
  bool expect(const std::string& host) {
    X509_VERIFY_PARAM* check = SSL_get0_param(ssl_.get());
    X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_app_data(ssl_.get(), this);
    SSL_set_verify(ssl_.get(), SSL_get_verify_mode(ssl_.get()), &TlsTransport::on_verify);
    if (is_ip_address(host)) return X509_VERIFY_PARAM_set1_ip_asc(check, host.c_str()) == 1;
    return !host.empty() && SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1;
  }

  net::awaitable<Result<void>> handshake(std::chrono::milliseconds timeout, std::string whom) {
    inner_->set_timeout(timeout);
    for (;;) {
      ERR_clear_error();
      const int rc = SSL_do_handshake(ssl_.get());
      if (rc == 1) break;
      const int error = SSL_get_error(ssl_.get(), rc);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) co_return handshake_failure(whom);
      const auto ready = co_await inner_->wait(error == SSL_ERROR_WANT_READ ? Wait::Readable : Wait::Writable);
      if (!ready) co_return with_context("TLS handshake with " + whom, ready.error());
    }
    inner_->set_deadline(std::nullopt);
    established_ = true;
    co_return Result<void>();
  }

  Io try_read(std::span<char> into) override {
    if (broken_ != 0) return failed(broken_);
    flush_stuck();
    std::size_t total = 0;
    while (total < into.size()) {
      std::size_t got = 0;
      ERR_clear_error();
      lenient_ = true;
      const int rc = SSL_read_ex(ssl_.get(), into.data() + total, into.size() - total, &got);
      lenient_ = false;
      if (rc != 1) {
        const Io io = outcome(rc);
        drained_ = io.kind == Io::Kind::Again;
        return total > 0 ? done(total) : io;  // an end or a failure comes again with the next call
      }
      total += got;
    }
    drained_ = false;
    return done(total);
  }

  Io try_write(std::span<const iovec> pieces) override {
    if (broken_ != 0) return failed(broken_);
    if (shut_) return failed(EPIPE);
    std::size_t total = 0;
    for (;;) {
      const std::string_view record = gather(pieces, total);
      if (record.empty()) return done(total);
      std::size_t taken = 0;
      ERR_clear_error();
      const int rc = SSL_write_ex(ssl_.get(), record.data(), record.size(), &taken);
      if (rc != 1) {
        const Io io = outcome(rc);
        return total > 0 ? done(total) : io;
      }
      total += taken;
    }
  }

  std::optional<Io> try_send_file(int, std::uint64_t&, std::size_t) override { return std::nullopt; }

  void shutdown_write() override {
    if (!established_ || broken_ != 0 || std::exchange(shut_, true)) return;
    ERR_clear_error();
    lenient_ = true;
    SSL_shutdown(ssl_.get());
    lenient_ = false;
    ERR_clear_error();
    finish_shutdown();
  }

  void close() override {
    if (broken_ == 0) {
      flush_stuck();
      broken_ = ECONNABORTED;
    }
    inner_->close();
  }

  net::awaitable<Result<void>> wait(Wait what) override {
    if (what == Wait::Readable && broken_ == 0) {
      if (!drained_) co_return Result<void>();  // decrypted bytes, or whole records, are here already
      if (shut_ && !stuck_.empty()) {           // no writer any more, so nothing else sends our close_notify
        auto ready = co_await inner_->wait(Wait::Writable);
        if (ready) finish_shutdown();
        co_return ready;
      }
    }
    co_return co_await inner_->wait(what);
  }

  void set_deadline(std::optional<std::chrono::steady_clock::time_point> when) override { inner_->set_deadline(when); }
  void on_hangup(std::move_only_function<void()> then) override { inner_->on_hangup(std::move(then)); }
  std::string peer() const override { return inner_->peer(); }
  int native_fd() const override { return inner_->native_fd(); }
  net::any_io_executor executor() override { return inner_->executor(); }

 private:
  // The meaning of an SSL call that did not succeed. After a fatal error the SSL object must not be used any more.
  Io outcome(int rc) {
    switch (SSL_get_error(ssl_.get(), rc)) {
      case SSL_ERROR_WANT_READ:
        return again(Wait::Readable);
      case SSL_ERROR_WANT_WRITE:
        return again(Wait::Writable);
      case SSL_ERROR_ZERO_RETURN:
        return {.kind = Io::Kind::End};
      case SSL_ERROR_SYSCALL:
        broken_ = inner_error_ != 0 ? inner_error_ : ECONNRESET;
        break;
      default:
        broken_ = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? ECONNRESET : EPROTO;
    }
    ERR_clear_error();
    return failed(broken_);
  }

  // At most one record's worth from `skip` on: small pieces (a head, a chunk's frame) should not be records each.
  static std::string_view gather(std::span<const iovec> pieces, std::size_t skip) {
    thread_local std::vector<char> buffer;
    std::size_t i = 0;
    while (i < pieces.size() && skip >= pieces[i].iov_len) skip -= pieces[i++].iov_len;
    if (i == pieces.size()) return {};
    const char* first = static_cast<const char*>(pieces[i].iov_base) + skip;
    const std::size_t first_size = pieces[i].iov_len - skip;
    if (first_size >= kRecord || i + 1 == pieces.size()) return {first, std::min(first_size, kRecord)};
    buffer.assign(first, first + first_size);
    while (++i < pieces.size() && buffer.size() < kRecord) {
      const auto* bytes = static_cast<const char*>(pieces[i].iov_base);
      buffer.insert(buffer.end(), bytes, bytes + std::min(pieces[i].iov_len, kRecord - buffer.size()));
    }
    return {buffer.data(), buffer.size()};
  }

  // Decides nothing; a refused certificate cannot be asked for its names later.
  static int on_verify(int verified, X509_STORE_CTX* store) {
    if (verified == 0 && X509_STORE_CTX_get_error(store) == X509_V_ERR_HOSTNAME_MISMATCH) {
      const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
      static_cast<TlsTransport*>(SSL_get_app_data(ssl))->other_names_ = names_of(X509_STORE_CTX_get0_cert(store));
    }
    return verified;
  }

  Failure handshake_failure(const std::string& whom) {
    const long verified = SSL_get_verify_result(ssl_.get());
    const int reason = ERR_GET_REASON(ERR_peek_error());
    const bool ended = input_ended_;
    std::string why = take_openssl_error();
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
      return fail(Code::Unavailable, "certificate verify failed for " + whom + ": " + verify_advice(verified));
    }
    if (inner_error_ != 0) {
      why = std::generic_category().message(inner_error_);
    } else if (ended && (reason == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
      why = "the peer closed the connection";
    } else if (reason == SSL_R_WRONG_VERSION_NUMBER) {
      why = "the peer does not speak TLS on this port (plain HTTP?)";
    } else if (reason == SSL_R_HTTP_REQUEST) {
      why = "the peer sent plain HTTP; use https";
    }
    return fail(Code::Unavailable, "TLS handshake with " + whom + ": " + why);
  }

  std::string verify_advice(long verified) {
    std::string text = X509_verify_cert_error_string(verified);
    switch (verified) {
      case X509_V_ERR_HOSTNAME_MISMATCH:
        if (!other_names_.empty()) text += " (it is for " + other_names_ + ")";
        break;
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        text += " (give its CA certificate as the CA file, or install it on this machine)";
        break;
      case X509_V_ERR_CERT_HAS_EXPIRED:
      case X509_V_ERR_CERT_NOT_YET_VALID:
        text += " (renew it, or check this machine's clock)";
        break;
      default:
        break;
    }
    return text;
  }

  // ---- OpenSSL's view of the inner transport
  //
  // Reading and closing may have to send something of TLS itself (an alert, a key update). The peer does not wait for
  // it, and a reader that waited for writability would meet the writer there: so what the socket does not take at once
  // is kept and goes out first with the next write.

  static BIO_METHOD* make_bio_method() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "osb transport");
    BIO_meth_set_read(method, [](BIO* bio, char* into, int size) { return self(bio).bio_read(bio, into, size); });
    BIO_meth_set_write(method,
                       [](BIO* bio, const char* bytes, int size) { return self(bio).bio_write(bio, bytes, size); });
    BIO_meth_set_ctrl(method, [](BIO* bio, int command, long, void*) -> long {
      if (command == BIO_CTRL_FLUSH) return 1;
      if (command == BIO_CTRL_EOF) return self(bio).input_ended_ ? 1 : 0;
      return 0;
    });
    return method;
  }
  static TlsTransport& self(BIO* bio) { return *static_cast<TlsTransport*>(BIO_get_data(bio)); }

  int bio_read(BIO* bio, char* into, int size) {
    BIO_clear_retry_flags(bio);
    const Io io = inner_->try_read({into, static_cast<std::size_t>(size)});
    switch (io.kind) {
      case Io::Kind::Done:
        if (first_byte_ == 0 && io.bytes > 0) first_byte_ = *into;
        return static_cast<int>(io.bytes);
      case Io::Kind::End:
        input_ended_ = true;
        return 0;
      case Io::Kind::Again:
        BIO_set_retry_read(bio);
        return -1;
      case Io::Kind::Failed:
        inner_error_ = io.error;
        return -1;
    }
    return -1;
  }

  int bio_write(BIO* bio, const char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    const auto count = static_cast<std::size_t>(size);
    std::size_t sent = 0;
    if (flush_stuck()) {
      const iovec piece{const_cast<char*>(bytes), count};
      const Io io = inner_->try_write({&piece, 1});
      if (io.kind == Io::Kind::Done) {
        if (!lenient_ || io.bytes == count) return static_cast<int>(io.bytes);
        sent = io.bytes;
      } else if (io.kind != Io::Kind::Again) {
        if (lenient_) return size;  // the next read or write finds out
        inner_error_ = io.kind == Io::Kind::Failed ? io.error : EPIPE;
        return -1;
      }
    }
    if (!lenient_) {
      BIO_set_retry_write(bio);
      return -1;
    }
    if (stuck_.size() + count > kMaxStuck) {
      inner_error_ = ENOBUFS;
      return -1;
    }
    stuck_.append(bytes + sent, count - sent);
    return size;
  }

  bool flush_stuck() {
    while (!stuck_.empty()) {
      const iovec piece{stuck_.data(), stuck_.size()};
      const Io io = inner_->try_write({&piece, 1});
      if (io.kind == Io::Kind::Again) return false;
      stuck_.erase(0, io.kind == Io::Kind::Done ? io.bytes : stuck_.size());  // broken: the next write reports it
    }
    return true;
  }

  void finish_shutdown() {
    if (flush_stuck()) inner_->shutdown_write();
  }

  std::unique_ptr<Transport> inner_;
  SslPtr ssl_;
  std::string stuck_;
  std::string other_names_;  // of a certificate that is not for the host we want
  char first_byte_ = 0;      // that the peer sent
  int broken_ = 0;           // errno of what ended it
  int inner_error_ = 0;
  bool input_ended_ = false;
  bool established_ = false;
  bool shut_ = false;
  bool lenient_ = false;
  bool drained_ = false;  // the last read proved that a complete record is not here
};

}  // namespace

bool speaks_http2(const Transport& transport) {
  const auto* tls = dynamic_cast<const TlsTransport*>(&transport);
  return tls != nullptr && tls->chose_http2();
}

net::awaitable<Result<std::unique_ptr<Transport>>> connect_tls(std::shared_ptr<const ClientContext> context,
                                                               std::unique_ptr<Transport> inner, std::string host,
                                                               std::chrono::milliseconds timeout, Offer offer) {
  auto transport = std::make_unique<TlsTransport>(context->get(), std::move(inner));
  if (!transport->expect(host)) co_return fail(Code::InvalidRequest, "TLS: \"" + host + "\" is not a host name");
  const std::string_view protocols = protocols_of(offer);
  SSL_set_alpn_protos(transport->ssl(), reinterpret_cast<const unsigned char*>(protocols.data()),
                      static_cast<unsigned int>(protocols.size()));
  SSL_set_connect_state(transport->ssl());
  if (auto shaken = co_await transport->handshake(timeout, host); !shaken) co_return Failure(shaken.error());
  co_return transport;
}

net::awaitable<Result<std::unique_ptr<Transport>>> accept_tls(std::shared_ptr<const ServerContext> context,
                                                              std::unique_ptr<Transport> inner,
                                                              std::chrono::milliseconds timeout, Offer offer) {
  const std::string whom = "client " + inner->peer();
  auto transport = std::make_unique<TlsTransport>(context->current().get(), std::move(inner));
  serve_protocols(transport->ssl(), protocols_of(offer));
  SSL_set_accept_state(transport->ssl());
  if (auto shaken = co_await transport->handshake(timeout, whom); !shaken) {
    Error error = shaken.error();
    if (transport->peer_speaks_http()) {
      co_await transport->refuse_http();
      error.reason = kPlainHttp;
    }
    co_return Failure(std::move(error));
  }
  co_return transport;
}

}  // namespace osb::tls
