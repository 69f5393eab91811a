#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "egress/proxy/endpoint.h"
#include "egress/proxy/random.h"

namespace osb::egress {

// How the kernel knows our own sockets. Zeros: like any other. Sockets with a mark have random ports below those that
// the kernel gives out: another process would find the tracked connection of our last socket on its port.
struct SocketIdentity {
  std::uint32_t mark = 0;
  std::uint32_t owner = 0;  // the user that the socket belongs to
};

// A UDP socket to one upstream server, with the port that the kernel chose. It is connected, so the kernel drops
// packets of other senders and reports that nothing listens there. Questions on it are told apart by random ids.
class UpstreamSocket : public std::enable_shared_from_this<UpstreamSocket> {
 public:
  // Called for every message with a known id, and with an empty message for every question when the server refuses.
  using Received = std::function<void(std::uint64_t lookup, std::string_view message)>;
  // Called when all messages that were there have been given out.
  using Drained = std::function<void()>;

  static Result<std::shared_ptr<UpstreamSocket>> open(net::any_io_executor executor, const Endpoint& server,
                                                      const SocketIdentity& identity, Received received,
                                                      Drained drained);
  ~UpstreamSocket() { close(); }

  // An id for a question, or nothing: the socket is used up.
  std::optional<std::uint16_t> reserve(std::uint64_t lookup, Random& random);
  // False: the packet could not be sent. The id is free again.
  bool send(std::uint16_t id, std::string_view message);
  void forget(std::uint16_t id) { lookups_.erase(id); }

  // New questions need another port after a while, or when foreign ids have come in.
  bool used_up() const { return uses_ >= kMostUses || strangers_ >= kMostStrangers || closed_; }
  bool idle() const { return lookups_.empty(); }
  void close();

 private:
  static constexpr std::size_t kMostUses = 4096;
  static constexpr std::size_t kMostStrangers = 16;
  static constexpr std::size_t kMostAtOnce = 1024;

  UpstreamSocket(net::any_io_executor executor, Received received, Drained drained);
  void wait();
  void drain();
  void refuse_all();

  net::posix::stream_descriptor stream_;
  Received received_;
  Drained drained_;
  std::unordered_map<std::uint16_t, std::uint64_t> lookups_;
  std::size_t uses_ = 0, strangers_ = 0;
  bool closed_ = false;
};

// A socket for a server: close-on-exec, non-blocking, marked, connected or (TCP) connecting.
Result<UniqueFd> connect_to(const Endpoint& server, int type, const SocketIdentity& identity);

}  // namespace osb::egress
