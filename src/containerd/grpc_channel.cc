#include "containerd/grpc_channel.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include "async/timer.h"
#include "base/parse_number.h"
#include "containerd/grpc_frames.h"
#include "http/transport.h"
#include "http/url.h"
#include "intercept/h2_side.h"

namespace osb::containerd {
namespace {

using intercept::H2Code;
using intercept::H2Head;

constexpr std::chrono::seconds kConnect(10);
constexpr std::chrono::hours kIdle(1);  // how often an idle connection is looked at; it is never ended for that

intercept::H2Limits limits() {
  intercept::H2Limits out;
  out.stream_window = 1 << 20;
  out.connection_window = 2 << 20;
  return out;
}

Code code_of(int status) {
  switch (status) {
    case 1:
      return Code::Cancelled;
    case 3:
    case 9:   // FAILED_PRECONDITION
    case 11:  // OUT_OF_RANGE
      return Code::InvalidRequest;
    case 4:
      return Code::Timeout;
    case 5:
      return Code::NotFound;
    case 6:  // ALREADY_EXISTS
      return Code::Conflict;
    case 7:
    case 16:
      return Code::Forbidden;
    case 8:
      return Code::Exhausted;
    case 12:
      return Code::Unsupported;
    case 14:
      return Code::Unavailable;
    default:
      return Code::Internal;
  }
}

// The trailers of a call.
Result<void> outcome_of(const http::Headers& trailers) {
  const auto status = parse_number<int>(trailers.get("grpc-status"));
  if (!status) return fail(Code::Internal, "an answer has no grpc-status");
  if (*status == 0) return {};
  const std::string text(trailers.get("grpc-message"));
  return fail(code_of(*status), http::percent_decode(text).value_or(text));
}

}  // namespace

struct GrpcCall::State {
  explicit State(net::any_io_executor executor, std::string framed)
      : request(std::move(framed)), changed(std::move(executor)) {}

  std::int32_t stream = 0;
  std::string request;
  std::size_t sent = 0;
  GrpcFrames frames;
  std::size_t owed = 0;                 // bytes that the server's window lacks until they have been read
  std::optional<Result<void>> outcome;  // once the server has ended the call
  bool closed = false;                  // the stream is gone
  Notifier changed;

  void end(Result<void> with) {
    if (!outcome) outcome = std::move(with);
    changed.notify_all();
  }
};

class GrpcConnection final : public intercept::H2Events, public std::enable_shared_from_this<GrpcConnection> {
 public:
  explicit GrpcConnection(std::unique_ptr<http::Transport> transport)
      : side_(std::move(transport), intercept::H2Session::Role::Client, *this, limits(), [this] { side_.flush(); }) {}

  bool over() const { return over_; }

  // Until the connection has ended. `self` keeps it alive meanwhile.
  net::awaitable<void> run(std::shared_ptr<GrpcConnection> self) {
    const auto ended = co_await self->side_.run(kIdle, [] { return false; });
    over_ = true;
    const std::string why = ended ? "it closed the connection" : ended.error().message;
    for (const auto& [id, call] : calls_) {
      call->closed = true;
      call->end(fail(Code::Unavailable, why));
    }
    calls_.clear();
  }

  Result<void> begin(GrpcCall::State& call, const std::string& method, http::Headers metadata) {
    H2Head head{
        .method = "POST", .scheme = "http", .authority = "localhost", .path = method, .fields = std::move(metadata)};
    head.fields.set("te", "trailers");
    head.fields.set("content-type", "application/grpc");
    const auto stream = side_.session().request(head, {}, false, true);
    if (!stream) return Failure(stream.error());
    call.stream = *stream;
    calls_[*stream] = &call;
    side_.flush();
    return {};
  }

  // Lets the server send on when no whole message waits to be read.
  void give_back(GrpcCall::State& call) {
    if (call.owed == 0 || over_ || call.frames.ready()) return;
    side_.session().consume(call.stream, std::exchange(call.owed, 0));
    side_.flush();
  }

  void end(GrpcCall::State& call) {
    calls_.erase(call.stream);
    if (over_) return;
    side_.session().consume(call.stream, call.owed);
    if (!call.closed) side_.session().reset(call.stream, H2Code::Cancel);
    side_.flush();
  }

  void close() {
    if (!over_) side_.leave();
  }

  void on_head(std::int32_t stream, H2Head head, bool ended) override {
    GrpcCall::State* call = find(stream);
    if (call == nullptr) return;
    if (head.status != 200 || !head.fields.get("content-type").starts_with("application/grpc")) {
      call->end(fail(Code::Internal, "an answer is not gRPC: HTTP status " + std::to_string(head.status)));
    } else if (ended) {
      call->end(outcome_of(head.fields));
    }
  }
  void on_data(std::int32_t stream, std::string_view piece) override {
    GrpcCall::State* call = find(stream);
    if (call == nullptr) return side_.session().consume(stream, piece.size());
    call->frames.feed(piece);
    call->owed += piece.size();
    if (call->frames.ready()) {
      call->changed.notify_all();
    } else {
      side_.session().consume(stream, std::exchange(call->owed, 0));
    }
  }
  void on_end(std::int32_t stream, http::Headers trailers) override {
    if (GrpcCall::State* call = find(stream)) call->end(outcome_of(trailers));
  }
  void on_sent_end(std::int32_t) override {}
  void on_closed(std::int32_t stream, H2Code) override {
    GrpcCall::State* call = find(stream);
    if (call == nullptr) return;
    call->closed = true;
    call->end(fail(Code::Unavailable, "it reset the call"));
  }
  void on_goaway() override {}
  Pulled pull(std::int32_t stream, std::span<char> into) override {
    GrpcCall::State* call = find(stream);
    if (call == nullptr) return {.bytes = 0, .ended = true, .trailers = {}};
    Pulled out;
    out.bytes = std::string_view(call->request).substr(call->sent).copy(into.data(), into.size());
    call->sent += out.bytes;
    out.ended = call->sent == call->request.size();
    return out;
  }

 private:
  GrpcCall::State* find(std::int32_t stream) const {
    const auto found = calls_.find(stream);
    return found != calls_.end() ? found->second : nullptr;
  }

  std::map<std::int32_t, GrpcCall::State*> calls_;  // each is removed by its GrpcCall
  bool over_ = false;
  intercept::H2Side side_;
};

GrpcCall::GrpcCall(std::shared_ptr<GrpcConnection> connection, std::unique_ptr<State> state)
    : connection_(std::move(connection)), state_(std::move(state)) {}

GrpcCall::~GrpcCall() { connection_->end(*state_); }

net::awaitable<Result<std::optional<std::string>>> GrpcCall::read() {
  for (;;) {
    auto message = state_->frames.next();
    if (!message) co_return Failure(message.error());
    if (*message) {
      connection_->give_back(*state_);
      co_return std::move(*message);
    }
    if (state_->outcome) {
      if (!*state_->outcome) co_return Failure(state_->outcome->error());
      if (!state_->frames.empty()) co_return fail(Code::Unavailable, "an answer was cut off");
      co_return std::optional<std::string>();
    }
    if (!co_await state_->changed.wait()) co_return fail(Code::Cancelled, "the call was cancelled");
  }
}

GrpcChannel::GrpcChannel(net::any_io_executor executor, std::string socket)
    : executor_(executor), socket_(std::move(socket)), tasks_(executor) {}

GrpcChannel::~GrpcChannel() = default;

net::awaitable<Result<std::unique_ptr<GrpcCall>>> GrpcChannel::begin(std::string method, std::string request,
                                                                     http::Headers metadata) {
  if (!connection_ || connection_->over()) {
    auto transport = co_await http::connect_plain(http::Address::unix_socket(socket_), kConnect);
    if (!transport) {
      transport.error().code = Code::Unavailable;
      co_return Failure(transport.error());
    }
    connection_ = std::make_shared<GrpcConnection>(std::move(*transport));
    tasks_.spawn("connection to " + socket_, connection_->run(connection_));
  }
  auto state = std::make_unique<GrpcCall::State>(executor_, grpc_frame(request));
  if (auto begun = connection_->begin(*state, method, std::move(metadata)); !begun) co_return Failure(begun.error());
  co_return std::make_unique<GrpcCall>(connection_, std::move(state));
}

net::awaitable<void> GrpcChannel::close() {
  if (connection_) connection_->close();
  co_await tasks_.close();
}

}  // namespace osb::containerd
