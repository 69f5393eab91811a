#include "http/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sys/socket.h>
#include <unordered_map>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/connection.h"
#include "http/reactor.h"

namespace osb::http {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t kMaxResponseHead = 256 * 1024;

class PlainConnector final : public Connector {
 public:
  net::awaitable<Result<std::unique_ptr<Transport>>> connect(std::string origin,
                                                             std::chrono::milliseconds timeout) override {
    auto address = Address::parse(origin);
    if (!address) co_return Failure(address.error());
    co_return co_await connect_plain(std::move(*address), timeout);
  }
};

// The request body on its way while the response may already be coming. Shared by the sender, which runs on its own,
// and the response, which ends it.
struct Upload {
  explicit Upload(net::any_io_executor executor) : ended(executor) {}
  bool running = true;
  std::optional<Error> source_failed;  // reading the body failed, not sending it
  net::cancellation_signal stop;
  net::steady_timer ended;  // cancelled when the sender has ended

  // Returns when the sender has let go of the body and the connection. Not in a coroutine that is being cancelled.
  net::awaitable<void> end() {
    if (running) stop.emit(net::cancellation_type::terminal);
    while (running) {
      boost::system::error_code ignored;
      ended.expires_at(net::steady_timer::time_point::max());
      co_await ended.async_wait(net::redirect_error(net::use_awaitable, ignored));
    }
  }
};

net::awaitable<void> send_body(std::shared_ptr<Connection> connection, std::shared_ptr<BodySource> source, bool chunked,
                               std::shared_ptr<Upload> upload) {
  for (;;) {
    auto piece = co_await source->read();
    if (!piece) {
      upload->source_failed = piece.error();
      connection->transport->close();  // upstream must see a truncated request, not a short one
      co_return;
    }
    if (!chunked) {
      if (piece->empty()) co_return;
      if (!co_await connection->transport->write_all(*piece)) co_return;
      continue;
    }
    std::array<char, 20> size;
    char* end = std::to_chars(size.data(), size.data() + 16, piece->size(), 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    iovec out[] = {{size.data(), static_cast<std::size_t>(end - size.data())},
                   {const_cast<char*>(piece->data()), piece->size()},
                   {const_cast<char*>("\r\n"), 2}};
    if (!co_await connection->transport->write_all(out)) co_return;
    if (piece->empty()) co_return;
  }
}

bool repeatable(const ClientRequest& request) {
  const std::string& m = request.method;
  return !request.stream && (m == "GET" || m == "HEAD" || m == "PUT" || m == "DELETE" || m == "OPTIONS");
}

// After a recv that failed: nothing is wrong with the connection, it has nothing to say.
bool would_wait() { return errno == EAGAIN || errno == EINTR; }

std::string host_of(std::string_view origin) {
  if (origin.starts_with("unix:")) return "localhost";
  if (const std::size_t scheme = origin.find("://"); scheme != std::string_view::npos) origin.remove_prefix(scheme + 3);
  return std::string(origin);
}

std::string serialize(const std::string& origin, const ClientRequest& request, bool chunked) {
  std::size_t size = 256 + request.method.size() + request.target.size() + origin.size();
  for (const auto& [name, value] : request.headers) size += name.size() + value.size() + 4;
  std::string out;
  out.reserve(size);  // once: growing would leave copies of a confidential head behind
  out.append(request.method).append(" ").append(request.target).append(" HTTP/1.1\r\n");
  if (!request.headers.contains("Host")) out.append("Host: ").append(host_of(origin)).append("\r\n");
  for (const auto& [name, value] : request.headers) out.append(name).append(": ").append(value).append("\r\n");
  if (chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (!request.headers.contains("Content-Length")) {
    const std::uint64_t length = request.stream ? request.stream->length().value_or(0) : request.body.size();
    const bool has_body =
        length > 0 || request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
    if (has_body) out.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
  }
  out += "\r\n";
  return out;
}

}  // namespace

struct Client::Pool : std::enable_shared_from_this<Client::Pool> {
  struct Idle {
    std::shared_ptr<Connection> connection;
    SteadyClock::time_point since;
  };
  std::unique_ptr<Connector> connector;
  Options options;
  std::unordered_map<std::string, std::vector<Idle>> idle;
  std::size_t total = 0;  // of idle connections
  SteadyClock::time_point swept = Reactor::now();
  bool closed = false;

  // Origins come and go with sandboxes: connections of an origin that is gone will not be used again.
  void sweep() {
    const auto now = Reactor::now();
    if (now - swept < options.idle / 4) return;
    swept = now;
    for (auto entry = idle.begin(); entry != idle.end();) {
      total -= std::erase_if(entry->second, [&](const Idle& each) {
        char byte;
        const ssize_t n = ::recv(each.connection->transport->native_fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return now - each.since > options.idle || n == 0 || (n < 0 && !would_wait());
      });
      entry = entry->second.empty() ? idle.erase(entry) : std::next(entry);
    }
  }

  // `certain`: the request cannot be repeated, so the connection's life is worth a system call.
  std::shared_ptr<Connection> take(const std::string& origin, bool certain) {
    sweep();
    const auto found = idle.find(origin);
    if (found == idle.end()) return nullptr;
    auto& list = found->second;
    std::shared_ptr<Connection> out;
    while (!list.empty() && !out) {
      Idle last = std::move(list.back());
      list.pop_back();
      --total;
      if (Reactor::now() - last.since > options.idle) {
        total -= list.size();
        list.clear();  // the rest is older still
        break;
      }
      // Something has arrived without a request: an end, or a protocol violation.
      char byte;
      Transport& transport = *last.connection->transport;
      const bool ended = certain
                             ? ::recv(transport.native_fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || !would_wait()
                             : transport.try_read({&byte, 1}).kind != Transport::Io::Kind::Again;
      if (!ended) out = std::move(last.connection);
    }
    return out;
  }

  void make_room() {
    if (total < options.idle_total) return;
    std::vector<Idle>* longest = nullptr;  // idle, of all origins
    for (auto& [origin, list] : idle) {
      if (!list.empty() && (longest == nullptr || list.front().since < longest->front().since)) longest = &list;
    }
    if (longest == nullptr) return;
    longest->erase(longest->begin());
    --total;
  }

  void give_back(const std::string& origin, std::shared_ptr<Connection> connection) {
    if (closed) return;
    auto& list = idle[origin];
    const auto now = Reactor::now();
    // The oldest are in front.
    const auto fresh =
        std::find_if(list.begin(), list.end(), [&](const Idle& e) { return now - e.since <= options.idle; });
    total -= static_cast<std::size_t>(fresh - list.begin());
    if (fresh != list.begin()) list.erase(list.begin(), fresh);
    if (list.size() >= options.idle_per_origin) return;
    make_room();
    connection->transport->set_deadline(std::nullopt);
    connection->in.shrink();
    list.push_back({std::move(connection), now});
    ++total;
  }
};

namespace {

// A response body that gives its connection back to the pool at its end.
class ResponseBody final : public BodySource {
 public:
  ResponseBody(std::shared_ptr<Connection> connection, const ResponseHead& head, const ClientTimeouts& timeouts,
               std::shared_ptr<Upload> upload, std::shared_ptr<Client::Pool> pool, std::string origin)
      : connection_(connection),
        inner_(connection, head.framing, {.stall = timeouts.body_stall}),
        upload_(std::move(upload)),
        pool_(std::move(pool)),
        origin_(std::move(origin)),
        reusable_(head.keep_alive) {
    if (inner_.finished() && (!upload_ || !upload_->running)) release();
  }
  ~ResponseBody() override {
    if (upload_ && upload_->running) upload_->stop.emit(net::cancellation_type::terminal);
    if (connection_) connection_->transport->close();
  }

  net::awaitable<Result<std::string_view>> read() override {
    auto piece = co_await inner_.read();
    if (piece && piece->empty() && connection_) {
      if (upload_ && upload_->running) {
        // Answered before it has read everything: the rest of the request is not wanted.
        reusable_ = false;
        connection_->transport->close();
        co_await upload_->end();
      }
      release();
    }
    co_return piece;
  }
  std::optional<std::string> take_whole(std::size_t limit) override {
    if (upload_ && upload_->running) return std::nullopt;  // read() knows how to end it
    auto whole = inner_.take_whole(limit);
    if (whole && connection_) release();
    return whole;
  }
  std::optional<std::uint64_t> length() const override { return inner_.length(); }
  bool ready() const override { return !connection_ || inner_.ready(); }

 private:
  void release() {
    auto connection = std::exchange(connection_, nullptr);
    if (reusable_ && connection->in.empty()) {
      pool_->give_back(origin_, std::move(connection));
    } else {
      connection->transport->close();
    }
  }

  std::shared_ptr<Connection> connection_;  // empty once given back
  MessageBody inner_;
  std::shared_ptr<Upload> upload_;
  std::shared_ptr<Client::Pool> pool_;
  std::string origin_;
  bool reusable_;
};

// The head of the final response if all of it is here; 1xx answers other than 101 are dropped.
Result<std::optional<ResponseHead>> take_head(Connection& connection, bool to_head, std::size_t& searched) {
  for (;;) {
    const std::size_t end = find_head_end(connection.in.data(), searched);
    if (end == 0) return std::optional<ResponseHead>();
    auto head = parse_response_head(connection.in.data().substr(0, end), to_head);
    if (!head) return Failure(head.error());
    connection.in.consume(end);
    if (head->status / 100 != 1 || head->status == 101) return std::optional(std::move(*head));
    searched = 0;
  }
}

}  // namespace

std::unique_ptr<Connector> make_plain_connector() { return std::make_unique<PlainConnector>(); }

Client::Client(std::unique_ptr<Connector> connector) : Client(std::move(connector), Options{}) {}

Client::Client(std::unique_ptr<Connector> connector, Options options) : pool_(std::make_shared<Pool>()) {
  pool_->connector = std::move(connector);
  pool_->options = options;
}

Client::~Client() {
  pool_->closed = true;
  pool_->idle.clear();
}

void Client::clear() {
  pool_->idle.clear();
  pool_->total = 0;
}
void Client::sweep() { pool_->sweep(); }

// One request on its way. On the heap, not in the coroutine: frames above about a kilobyte miss Asio's cache.
struct Client::Exchange {
  Exchange(std::shared_ptr<Pool> p, std::string o, ClientRequest r)
      : pool(std::move(p)),
        origin(std::move(o)),
        request(std::move(r)),
        chunked(request.stream && !request.stream->length().has_value()),
        head(serialize(origin, request, chunked)) {}
  ~Exchange() {
    if (!request.confidential) return;
    ::explicit_bzero(head.data(), head.size());
    ::explicit_bzero(request.target.data(), request.target.size());
    request.headers.wipe();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void start_upload(const net::any_io_executor& executor) {
    if (!request.stream || (!chunked && request.stream->length().value_or(0) == 0)) return;
    upload = std::make_shared<Upload>(executor);
    net::co_spawn(executor, send_body(connection, request.stream, chunked, upload),
                  net::bind_cancellation_slot(upload->stop.slot(), [upload = upload](std::exception_ptr) {
                    upload->running = false;
                    upload->ended.cancel();
                  }));
  }

  Failure failed(Error error) {
    if (upload && upload->running) upload->stop.emit(net::cancellation_type::terminal);
    if (asker_left && error.code == Code::Timeout) error = Error(Code::Cancelled, "the client left");
    if (upload && upload->source_failed) return with_context("request body for " + origin, *upload->source_failed);
    return with_context(request.method + " " + origin, std::move(error));
  }

  // A 101 hands the connection itself over, so the request must have asked for it, and no upload may be writing to it.
  std::optional<Error> refuse_switch(const ResponseHead& got) const {
    if (got.status != 101) return std::nullopt;
    if (!request.headers.contains("Upgrade")) return Error(Code::Unavailable, "answered 101 without being asked to");
    if (upload && upload->running) return Error(Code::Unavailable, "answered 101 in the middle of the request");
    return std::nullopt;
  }

  // The asker has ended its side. It may have left; then nothing else would end the wait for upstream.
  void asker_hung_up() {
    const ClientTimeouts& limits = request.timeouts;
    if (limits.head.count() > 0 && limits.head <= limits.after_hangup) return;
    asker_left = true;
    connection->transport->set_timeout(limits.after_hangup);
  }

  ClientResponse respond(ResponseHead got) {
    ClientResponse response;
    response.status = got.status;
    if (got.status == 101) {
      response.buffered = connection->in.data();
      connection->transport->set_deadline(std::nullopt);
      response.upgraded = std::move(connection->transport);
    } else {
      response.body =
          std::make_unique<ResponseBody>(connection, got, request.timeouts, upload, pool, std::move(origin));
    }
    response.headers = std::move(got.headers);
    return response;
  }

  const std::shared_ptr<Pool> pool;
  std::string origin;
  ClientRequest request;
  const bool chunked;
  std::string head;
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Upload> upload;
  bool any_byte = false;  // of the response
  bool asker_left = false;
};

// Watches the asker as long as the head is awaited.
class Client::AskerWatch {
 public:
  explicit AskerWatch(Exchange& exchange) : asker_(exchange.request.asker) {
    if (asker_ != nullptr) asker_->on_hangup([&exchange] { exchange.asker_hung_up(); });
  }
  ~AskerWatch() {
    if (asker_ != nullptr) asker_->on_hangup(nullptr);
  }
  AskerWatch(const AskerWatch&) = delete;
  AskerWatch& operator=(const AskerWatch&) = delete;

 private:
  Transport* asker_;
};

net::awaitable<Result<ClientResponse>> Client::send(std::string origin, ClientRequest request) {
  return run(std::make_unique<Exchange>(pool_, std::move(origin), std::move(request)));
}

net::awaitable<Result<ClientResponse>> Client::run(std::unique_ptr<Exchange> x) {
  for (bool fresh_only = false;; fresh_only = true) {
    x->connection = fresh_only ? nullptr : x->pool->take(x->origin, !repeatable(x->request));
    const bool reused = x->connection != nullptr;
    if (!reused) {
      auto transport = co_await x->pool->connector->connect(x->origin, x->request.timeouts.connect);
      if (!transport) co_return Failure(transport.error());
      x->connection = std::make_shared<Connection>();
      x->connection->transport = std::move(*transport);
    }
    Transport& transport = *x->connection->transport;
    transport.set_timeout(x->request.timeouts.head);
    iovec pieces[] = {{const_cast<char*>(x->head.data()), x->head.size()},
                      {x->request.body.data(), x->request.body.size()}};
    std::span<iovec> left = pieces;
    std::optional<Error> error;
    if (transport.write_now(left).kind != Transport::Io::Kind::Done) {
      if (auto sent = co_await transport.write_all(left); !sent) error = sent.error();
    }
    if (!error) x->start_upload(transport.executor());
    const AskerWatch watch(*x);
    for (std::size_t searched = 0; !error;) {
      auto head = take_head(*x->connection, x->request.method == "HEAD", searched);
      if (head && *head) {
        error = x->refuse_switch(**head);
        if (!error) co_return x->respond(std::move(**head));
        break;
      }
      if (!head) {
        error = std::move(head.error());
        break;
      }
      const Transport::Io io = x->connection->fill_now(kMaxResponseHead);
      if (io.kind == Transport::Io::Kind::Done) {
        x->any_byte = true;
      } else if (io.kind == Transport::Io::Kind::Again) {
        if (auto ready = co_await transport.wait(io.wait_for); !ready) error = std::move(ready.error());
      } else if (io.kind == Transport::Io::Kind::End) {
        error = Error(Code::Unavailable, "the connection ended before a response came");
      } else {
        error = Connection::fill_failure(io.error).error();
      }
    }
    const bool stale = reused && !x->any_byte && error->code == Code::Unavailable;
    if (stale && repeatable(x->request)) continue;
    const Failure failure = x->failed(std::move(*error));
    // The asker's session reads the rest of the body, so the upload must not read it by then. Other sources may end
    // later.
    const bool cancelled = (co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none;
    if (x->upload && x->request.asker != nullptr && !cancelled) co_await x->upload->end();
    co_return failure;
  }
}

}  // namespace osb::http
