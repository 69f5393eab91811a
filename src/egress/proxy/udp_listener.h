#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/unique_fd.h"
#include "egress/proxy/dns_proxy.h"

namespace osb::egress {

// Questions over UDP. Reads and answers many packets with one system call each. Replies are kept until flush(): the
// owner calls it whenever a batch of work is done.
class UdpListener final : public ReplyChannel, public std::enable_shared_from_this<UdpListener> {
 public:
  using Received = std::function<void(const SocketAddress& from, std::string_view message, const ReplyPath& reply)>;

  // `drained` is called after each batch of questions.
  static Result<std::shared_ptr<UdpListener>> open(net::any_io_executor executor, UniqueFd socket, Received received,
                                                   std::function<void()> drained);
  ~UdpListener() override;

  void send(const SocketAddress& to, std::string_view message) override;
  std::size_t limit(const Query& query) const override;
  void flush();
  void close();

 private:
  static constexpr std::size_t kBatch = 32;
  struct Room;  // buffers of one batch

  UdpListener(net::any_io_executor executor, Received received, std::function<void()> drained);
  void wait();
  void drain();

  net::posix::stream_descriptor stream_;
  Received received_;
  std::function<void()> drained_;
  std::unique_ptr<Room> room_;
  struct Reply {
    SocketAddress to;
    std::string message;
  };
  std::vector<Reply> replies_;  // the first `queued_` are to be sent; the others are kept for their memory
  std::size_t queued_ = 0;
};

}  // namespace osb::egress
