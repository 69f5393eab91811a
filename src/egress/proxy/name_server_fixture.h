#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/unique_fd.h"
#include "egress/dns/message_fixture.h"
#include "egress/proxy/endpoint.h"

namespace osb::egress::testing {

// A name server of its own thread on 127.0.0.1, over UDP and TCP. Names it does not know are NXDOMAIN.
class NameServer {
 public:
  NameServer() {
    while (!bind_both()) {
    }
    ::listen(tcp_.get(), 16);
    stop_.reset(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
  }
  ~NameServer() {
    const std::uint64_t one = 1;
    if (::write(stop_.get(), &one, sizeof one) < 0) std::abort();
    thread_.join();
  }

  Endpoint endpoint() const { return {*parse_ip_address("127.0.0.1"), port_}; }

  void set(const std::string& name, RecordType type, std::vector<TestRecord> answers) {
    const std::lock_guard lock(mutex_);
    zone_[{name, type}] = std::move(answers);
  }
  // Truncated over UDP.
  void only_by_tcp(const std::string& name) {
    const std::lock_guard lock(mutex_);
    tcp_only_ = name;
  }
  // Answers with this rcode; nothing: as it should.
  void always(std::optional<int> rcode) {
    const std::lock_guard lock(mutex_);
    rcode_ = rcode;
  }
  // Answers nothing at all.
  void be_silent(bool silent) { silent_ = silent; }
  int asked(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return asked_[name];
  }
  std::string last_question() {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  // False: the port that UDP got is taken for TCP.
  bool bind_both() {
    port_ = 0;
    for (const int type : {SOCK_DGRAM, SOCK_STREAM}) {
      UniqueFd& fd = type == SOCK_DGRAM ? udp_ : tcp_;
      fd.reset(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
      SocketAddress address(Endpoint{*parse_ip_address("127.0.0.1"), port_});
      if (::bind(fd.get(), &address.any, address.size) < 0) return false;
      ::getsockname(fd.get(), &address.any, &address.size);
      port_ = ntohs(address.v4.sin_port);
    }
    return true;
  }

  std::string reply(std::string_view in, bool by_tcp) {
    Query query;
    parse_query(in, query);
    const std::lock_guard lock(mutex_);
    const std::string name = name_text(query.question.name());
    ++asked_[name];
    if (!name.empty()) last_ = in;
    TestResponse out{.id = query.id, .name = name, .type = query.question.type()};
    if (rcode_) {
      out.flags = static_cast<std::uint16_t>(0x8180 | *rcode_);
      return message(out);
    }
    if (name == tcp_only_ && !by_tcp) {
      out.flags = 0x8380;
      return message(out);
    }
    if (const auto found = zone_.find({name, out.type}); found != zone_.end()) {
      out.answers = found->second;
    } else if (!name.empty()) {
      out.flags = 0x8183;
      out.authority = {soa("test", 30)};
    }
    return message(out);
  }

  void run() {
    for (;;) {
      pollfd waits[] = {{stop_.get(), POLLIN, 0}, {udp_.get(), POLLIN, 0}, {tcp_.get(), POLLIN, 0}};
      if (::poll(waits, 3, -1) < 0) continue;
      if (waits[0].revents != 0) return;
      char buffer[4096];
      if (waits[1].revents != 0) {
        sockaddr_in from{};
        socklen_t size = sizeof from;
        const ssize_t got = ::recvfrom(udp_.get(), buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&from), &size);
        if (got <= 0) continue;
        const std::string out = reply({buffer, static_cast<std::size_t>(got)}, false);
        if (!silent_) ::sendto(udp_.get(), out.data(), out.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
      }
      if (waits[2].revents != 0) {
        const UniqueFd connection(::accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        const ssize_t got = ::recv(connection.get(), buffer, sizeof buffer, 0);
        if (got <= 2) continue;
        const std::string out = reply({buffer + 2, static_cast<std::size_t>(got) - 2}, true);
        std::string framed;
        put_u16(framed, static_cast<std::uint16_t>(out.size()));
        framed += out;
        if (!silent_) ::send(connection.get(), framed.data(), framed.size(), MSG_NOSIGNAL);
      }
    }
  }

  std::uint16_t port_ = 0;
  UniqueFd udp_, tcp_, stop_;
  std::mutex mutex_;
  std::map<std::pair<std::string, RecordType>, std::vector<TestRecord>> zone_;
  std::map<std::string, int> asked_;
  std::string tcp_only_, last_;
  std::optional<int> rcode_;
  std::atomic<bool> silent_ = false;
  std::thread thread_;
};

}  // namespace osb::egress::testing
