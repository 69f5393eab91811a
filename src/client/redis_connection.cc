#include "client/redis_connection.h"

#include <boost/asio/co_spawn.hpp>

#include "async/timer.h"
#include "client/errors.h"
#include "tls/connector.h"

namespace opensandbox {
namespace {

// A pool may have many idle sandboxes.
constexpr osb::redis::Limits kLimits{.text_bytes = 64 << 20, .items = 10'000'000, .depth = 8};

}  // namespace

RedisConnection::RedisConnection(osb::redis::Address address, std::chrono::milliseconds timeout)
    : address_(std::move(address)), timeout_(timeout), connector_(osb::tls::make_connector(io_.get_executor())) {}

osb::net::awaitable<osb::Result<osb::redis::Reply>> RedisConnection::exchange(std::vector<std::string> command) {
  if (!connection_) {
    auto opened = co_await osb::redis::Connection::open(*connector_, address_, timeout_, kLimits);
    if (!opened) co_return osb::Failure(opened.error());
    connection_.emplace(std::move(*opened));
  }
  co_return co_await connection_->call(std::move(command), timeout_);
}

Result<osb::redis::Reply> RedisConnection::call(const std::vector<std::string>& command) {
  std::optional<osb::Result<osb::redis::Reply>> answer;
  osb::net::co_spawn(io_, osb::with_timeout(exchange(command), timeout_),
                     [&answer](std::exception_ptr bug, osb::Result<osb::redis::Reply> got) {
                       if (bug) std::rethrow_exception(bug);
                       answer = std::move(got);
                     });
  io_.restart();
  while (!answer && io_.run_one() > 0) {
  }
  if (!answer) return pool_error("POOL_STATE_STORE_UNAVAILABLE", "redis: no answer");
  if (*answer) return std::move(**answer);
  const osb::Error& error = answer->error();
  // An error that Redis tells leaves the connection in order; the others do not.
  if (error.code != osb::Code::Conflict) connection_.reset();
  return pool_error("POOL_STATE_STORE_UNAVAILABLE", "redis: " + error.message);
}

}  // namespace opensandbox
