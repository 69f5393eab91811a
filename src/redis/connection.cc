#include "redis/connection.h"

#include <utility>

#include "http/transport.h"

namespace osb::redis {

net::awaitable<Result<Connection>> Connection::open(http::Connector& connector, Address address,
                                                    std::chrono::milliseconds timeout, Limits limits) {
  auto transport = co_await connector.connect(address.origin, timeout);
  if (!transport) co_return Failure(transport.error());
  Connection out(std::move(*transport), limits);
  std::vector<std::vector<std::string>> first;
  if (!address.password.empty()) {
    first.push_back({"AUTH"});
    if (!address.user.empty()) first.back().push_back(std::move(address.user));
    first.back().push_back(std::move(address.password));
  }
  if (address.database != 0) first.push_back({"SELECT", std::to_string(address.database)});
  for (auto& words : first) {
    if (auto done = co_await out.call(std::move(words), timeout); !done) co_return Failure(done.error());
  }
  co_return out;
}

net::awaitable<Result<Reply>> Connection::call(std::vector<std::string> words, std::chrono::milliseconds timeout) {
  transport_->set_timeout(timeout);
  const std::string command = encode(words);
  if (auto sent = co_await transport_->write_all(command); !sent) co_return Failure(sent.error());
  for (;;) {
    auto reply = take_reply(buffer_, limits_);
    if (!reply) co_return Failure(reply.error());
    if (*reply) {
      if ((*reply)->kind == Reply::Kind::Error) co_return fail(Code::Conflict, words.front() + ": " + (*reply)->text);
      co_return std::move(**reply);
    }
    char piece[16 * 1024];
    const auto got = co_await transport_->read_some(piece);
    if (!got) co_return Failure(got.error());
    if (*got == 0) co_return fail(Code::Unavailable, "Redis closed the connection");
    buffer_.append(piece, *got);
  }
}

}  // namespace osb::redis
