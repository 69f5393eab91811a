#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "async/task_group.h"
#include "async/timer.h"
#include "intercept/h2_side.h"
#include "intercept/interceptor_fixture.h"

namespace osb::intercept::testing {

// A program at one end of an HTTP/2 connection, which writes down what comes.
class H2Peer final : public H2Events {
 public:
  struct Seen {
    H2Head head;
    std::string body;
    http::Headers trailers;
    bool ended = false;
    std::optional<H2Code> closed;
    bool reads = true;  // false: its window is not opened again
    // Our side.
    std::string to_send;
    bool last = false;
    http::Headers last_trailers;
  };

  H2Peer(std::unique_ptr<http::Transport> transport, H2Session::Role role, const H2Limits& limits = {})
      : changed_(transport->executor()), side_(std::move(transport), role, *this, limits, [this] { side_.flush(); }) {}

  std::map<std::int32_t, Seen> streams;
  bool going_away = false, over = false;
  std::function<void(H2Peer&, std::int32_t)> serve;  // called with each request's head

  net::awaitable<void> run() {
    (void)co_await side_.run(std::chrono::hours(1), [] { return false; });
    over = true;
    changed_.notify_all();
  }

  H2Session& session() { return side_.session(); }
  void flush() { side_.flush(); }
  void leave() { side_.leave(); }

  std::int32_t ask(H2Head head, bool with_body = false, std::string body = {}) {
    const auto id = session().request(head, {}, false, with_body);
    EXPECT_TRUE(id);
    streams[*id].to_send = std::move(body);
    streams[*id].last = with_body && !streams[*id].to_send.empty();
    flush();
    return *id;
  }
  void answer(std::int32_t id, int status, std::string body, http::Headers fields = {}, http::Headers trailers = {}) {
    Seen& seen = streams[id];
    seen.to_send = std::move(body);
    seen.last = true;
    seen.last_trailers = std::move(trailers);
    H2Head head;
    head.status = status;
    head.fields = std::move(fields);
    session().respond(id, head, true);
  }
  void say(std::int32_t id, std::string_view piece, bool last = false) {
    streams[id].to_send += piece;
    streams[id].last = last;
    session().resume(id);
    flush();
  }

  // From now on the stream's window is opened, also for what has come so far.
  void read_on(std::int32_t id) {
    streams[id].reads = true;
    session().consume(id, streams[id].body.size());
    flush();
  }

  template <typename Condition>
  net::awaitable<bool> until(Condition condition) {
    while (!condition() && !over) {
      if (!co_await changed_.wait()) co_return false;
    }
    co_return condition();
  }
  net::awaitable<bool> until_ended(std::int32_t id) {
    return until([this, id] { return streams[id].ended || streams[id].closed; });
  }

  void on_head(std::int32_t id, H2Head head, bool ended) override {
    streams[id].head = std::move(head);
    streams[id].ended = ended;
    if (serve) serve(*this, id);
    changed_.notify_all();
  }
  void on_data(std::int32_t id, std::string_view piece) override {
    streams[id].body += piece;
    if (streams[id].reads) session().consume(id, piece.size());
    changed_.notify_all();
  }
  void on_end(std::int32_t id, http::Headers trailers) override {
    streams[id].trailers = std::move(trailers);
    streams[id].ended = true;
    changed_.notify_all();
  }
  void on_sent_end(std::int32_t) override {}
  void on_closed(std::int32_t id, H2Code code) override {
    streams[id].closed = code;
    changed_.notify_all();
  }
  void on_goaway() override {
    going_away = true;
    changed_.notify_all();
  }
  Pulled pull(std::int32_t id, std::span<char> into) override {
    Seen& seen = streams[id];
    Pulled out;
    out.bytes = seen.to_send.copy(into.data(), into.size());
    seen.to_send.erase(0, out.bytes);
    out.ended = seen.to_send.empty() && seen.last;
    if (out.ended) out.trailers = seen.last_trailers;
    return out;
  }

 private:
  Notifier changed_;
  H2Side side_;
};

// A client in the sandbox and a host, both with HTTP/2, and the interceptor between them.
class H2Test : public InterceptorTest {
 protected:
  static inline const std::string kHost = "api.example.com";

  H2Test() : tasks_(io_.get_executor()), accepted_(io_.get_executor()) {
    rules_.bound[kHost] = "Bearer " + std::string(kSecret);
  }
  ~H2Test() override {
    if (interceptor_) await(io_, interceptor_->close());
    await(io_, tasks_.close());
  }

  // The host; `serve_` answers its requests. `offer`: the versions that it speaks.
  void start_host(tls::Offer offer = tls::Offer::Http2Or1) {
    const Certificate certificate = certificate_for(kHost);
    auto where = http::to_sockaddr(http::Address::tcp("127.0.0.1", 0));
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(listener.get(), where->get(), where->length), 0);
    ASSERT_EQ(::listen(listener.get(), 64), 0);
    ASSERT_EQ(::getsockname(listener.get(), where->get(), &where->length), 0);
    destination_.port = ntohs(reinterpret_cast<sockaddr_in*>(where->get())->sin_port);
    tasks_.spawn("host", accept(std::move(listener), *tls::ServerContext::make(certificate.identity()), offer));
    start();
  }

  // A connection of the sandbox that speaks HTTP/2.
  H2Peer& connect(const H2Limits& limits = {}) {
    clients_.push_back(std::make_unique<H2Peer>(dial_http2(tls::Offer::Http2), H2Session::Role::Client, limits));
    tasks_.spawn("client", clients_.back()->run());
    return *clients_.back();
  }
  std::unique_ptr<http::Transport> dial_http2(tls::Offer offer) {
    const auto made = [&]() -> net::awaitable<Connected> {
      auto plain = co_await http::connect_plain(at_, 20s);
      if (!plain) co_return plain;
      co_return co_await tls::connect_tls(sandbox_trust_, std::move(*plain), kHost, 20s, offer);
    };
    auto transport = await(io_, made());
    EXPECT_TRUE(transport) << transport.error().message;
    return std::move(*transport);
  }

  static H2Head get(std::string path = "/path", http::Headers fields = {}) {
    return {
        .method = "GET", .scheme = "https", .authority = kHost, .path = std::move(path), .fields = std::move(fields)};
  }
  static H2Head post(std::string path = "/path", http::Headers fields = {}) {
    H2Head head = get(std::move(path), std::move(fields));
    head.method = "POST";
    return head;
  }
  // A whole exchange on a stream of its own.
  H2Peer::Seen& ask(H2Peer& client, H2Head head, std::string body = {}) {
    const bool with_body = !body.empty();
    const std::int32_t id = client.ask(std::move(head), with_body, std::move(body));
    EXPECT_TRUE(await(io_, client.until_ended(id)));
    return client.streams[id];
  }
  // For what a peer does without being told, such as sending.
  template <typename Condition>
  void run_until(Condition condition) {
    io_.restart();
    while (!condition()) io_.run_one();
  }
  H2Peer& host() {
    EXPECT_TRUE(
        await(io_, [&]() -> net::awaitable<bool> { co_return hosts_.empty() ? co_await accepted_.wait() : true; }()));
    return *hosts_.back();
  }

  std::function<void(H2Peer&, std::int32_t)> serve_ = [](H2Peer& self, std::int32_t id) {
    const H2Head& head = self.streams[id].head;
    self.answer(id, 200, "here is " + head.path, {{"x-echo", std::string(head.fields.get("authorization"))}});
  };
  // In the place of `serve_`: a host that writes its frames by itself.
  std::function<net::awaitable<void>(std::unique_ptr<http::Transport>)> serve_raw_;
  TaskGroup tasks_;
  Event accepted_;
  std::vector<std::unique_ptr<H2Peer>> clients_, hosts_;

 private:
  net::awaitable<void> accept(UniqueFd socket, std::shared_ptr<const tls::ServerContext> context, tls::Offer offer) {
    http::Listener listener(io_.get_executor(), std::move(socket));
    for (;;) {
      auto connection = co_await listener.accept();
      if (!connection) co_return;
      auto secure = co_await tls::accept_tls(
          context, http::make_plain_transport(io_.get_executor(), std::move(*connection)), 20s, offer);
      if (!secure) continue;
      if (!tls::speaks_http2(**secure)) {
        (void)co_await (*secure)->write_all("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nin 1.1");
        first_versions_.push_back(std::move(*secure));
        continue;
      }
      if (serve_raw_) {
        tasks_.spawn("host's connection", serve_raw_(std::move(*secure)));
        continue;
      }
      hosts_.push_back(std::make_unique<H2Peer>(std::move(*secure), H2Session::Role::Server));
      hosts_.back()->serve = serve_;
      tasks_.spawn("host's connection", hosts_.back()->run());
      accepted_.set();
    }
  }

  std::vector<std::unique_ptr<http::Transport>> first_versions_;
};

}  // namespace osb::intercept::testing
