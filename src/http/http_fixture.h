#pragma once

// Shared by the tests of server, client and proxy: a server on a loopback port, and raw connections to it.

#include <chrono>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "http/server.h"
#include "http/transport.h"
#include "support/await.h"

namespace osb::http::testing {

class HttpFixture : public ::testing::Test {
 protected:
  using Millis = std::chrono::milliseconds;

  // Starts a server on 127.0.0.1 with a fresh port.
  Server& serve(Handler handler, ServerOptions options = {}) {
    server_ = std::make_unique<Server>(io.get_executor(), std::move(handler), std::move(options));
    auto bound = server_->listen(Address::tcp("127.0.0.1", 0));
    EXPECT_TRUE(bound) << (bound ? "" : bound.error().message);
    address = *bound;
    return *server_;
  }

  ~HttpFixture() override {
    if (server_) osb::testing::await(io, server_->stop(Millis(0)));
    server_.reset();
    io.poll();
  }

  std::unique_ptr<Transport> connect() {
    auto made = osb::testing::await(io, connect_plain(address, Millis(5000)));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    (*made)->set_timeout(Millis(10000));
    return std::move(*made);
  }

  void send(Transport& to, std::string_view bytes) {
    auto sent = osb::testing::await(io, to.write_all(bytes));
    ASSERT_TRUE(sent) << sent.error().message;
  }

  // Everything until the server closes.
  std::string read_to_end(Transport& from) {
    std::string all;
    char buffer[4096];
    for (;;) {
      auto got = osb::testing::await(io, from.read_some(buffer));
      if (!got || *got == 0) return all;
      all.append(buffer, *got);
    }
  }

  // Until `all` ends with `end`, or the server closes.
  std::string read_until(Transport& from, std::string_view end) {
    std::string all;
    char byte;
    while (!all.ends_with(end)) {
      auto got = osb::testing::await(io, from.read_some({&byte, 1}));
      if (!got || *got == 0) break;
      all += byte;
    }
    return all;
  }

  // One request on a connection of its own, answered until close.
  std::string exchange(std::string_view request) {
    auto connection = connect();
    send(*connection, request);
    return read_to_end(*connection);
  }

  net::io_context io{1};
  Address address;

 private:
  std::unique_ptr<Server> server_;
};

// The body of a raw response, behind the head; chunked framing is not removed.
inline std::string body_of(const std::string& response) {
  const std::size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

inline int status_in(const std::string& response) {
  return response.starts_with("HTTP/1.1 ") ? std::stoi(response.substr(9, 3)) : 0;
}

}  // namespace osb::http::testing
