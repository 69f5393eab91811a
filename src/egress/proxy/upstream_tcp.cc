#include "egress/proxy/upstream_tcp.h"

#include <sys/socket.h>

#include "egress/dns/reader.h"
#include "egress/proxy/upstream_socket.h"
#include "http/transport.h"

namespace osb::egress {

net::awaitable<Result<std::string>> exchange_by_tcp(net::any_io_executor executor, Endpoint server,
                                                    SocketIdentity identity, std::string message) {
  auto fd = connect_to(server, SOCK_STREAM, identity);
  if (!fd) co_return Failure(fd.error());
  const auto transport = http::make_plain_transport(std::move(executor), std::move(*fd));
  if (auto ready = co_await transport->wait(http::Transport::Wait::Writable); !ready) co_return Failure(ready.error());
  std::string framed;
  put_u16(framed, static_cast<std::uint16_t>(message.size()));
  framed += message;
  if (auto sent = co_await transport->write_all(framed); !sent) co_return Failure(sent.error());
  std::string in;
  std::array<char, 4096> buffer;
  for (;;) {
    const std::size_t wanted = in.size() < 2 ? 2 : 2 + WireReader(in).u16();
    if (in.size() >= 2 && in.size() >= wanted) co_return in.substr(2, wanted - 2);
    const auto got = co_await transport->read_some(buffer);
    if (!got) co_return Failure(got.error());
    if (*got == 0)
      co_return fail(Code::Unavailable, "name server " + format_endpoint(server) + " closed the connection");
    in.append(buffer.data(), *got);
  }
}

}  // namespace osb::egress
