// Asks a name server over UDP, from several addresses, with a fixed number of questions in flight on each.
//
// bench_dns_load PORT SOCKETS IN_FLIGHT SECONDS NAMES PREFIX: names are PREFIX0.test, PREFIX1.test, ... NAMES times,
// then from the beginning. Socket i sends from 127.0.1.i. IN_FLIGHT 0: one question at a time, from each socket in
// turn. Prints one line of JSON.

#include <arpa/inet.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "samples.h"

namespace {

using osb::bench::Clock;

struct Asker {
  int fd = -1;
  std::vector<Clock::time_point> began;  // by place; the id of a question is its place
};

std::string make_question(std::uint16_t id, const std::string& label) {
  std::string out(12, '\0');
  out[0] = static_cast<char>(id >> 8);
  out[1] = static_cast<char>(id);
  out[2] = 1;  // recursion desired
  out[5] = 1;
  out += static_cast<char>(label.size());
  out += label;
  out += std::string("\4test\0\0\1\0\1", 10);
  return out;
}

sockaddr_in address(std::uint32_t ip, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(ip);
  out.sin_port = htons(static_cast<std::uint16_t>(port));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int port = std::atoi(argv[1]), sockets = std::atoi(argv[2]), in_flight = std::atoi(argv[3]);
  const double seconds = std::atof(argv[4]);
  const long names = std::atol(argv[5]);
  const std::string prefix = argv[6];
  const bool in_turn = in_flight == 0;
  const int places = in_turn ? 1 : in_flight;
  long next = 0;
  std::size_t wrong = 0;
  osb::bench::Samples samples;
  std::vector<Asker> askers(static_cast<std::size_t>(sockets));
  std::vector<pollfd> waits;
  const auto ask = [&](Asker& asker, std::uint16_t place) {
    const std::string message = make_question(place, prefix + std::to_string(next++ % names));
    asker.began[place] = Clock::now();
    if (::send(asker.fd, message.data(), message.size(), 0) < 0) std::abort();
  };
  for (std::size_t i = 0; i < askers.size(); ++i) {
    askers[i].fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const sockaddr_in own = address(0x7f000101 + static_cast<std::uint32_t>(i), 0);
    const sockaddr_in to = address(0x7f000001, port);
    if (::bind(askers[i].fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) < 0) std::abort();
    if (::connect(askers[i].fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0) std::abort();
    askers[i].began.resize(static_cast<std::size_t>(places));
    waits.push_back({askers[i].fd, POLLIN, 0});
  }
  const auto begin = Clock::now();
  const auto ask_all = [&] {
    for (Asker& asker : askers) {
      for (int i = 0; i < places; ++i) ask(asker, static_cast<std::uint16_t>(i));
      if (in_turn) return 1;
    }
    return sockets * places;
  };
  ask_all();
  std::size_t lost = 0;
  while (osb::bench::seconds_since(begin) < seconds) {
    if (::poll(waits.data(), waits.size(), 1000) == 0) {
      // Packets were lost: begin anew.
      lost += static_cast<std::size_t>(ask_all());
    }
    for (std::size_t i = 0; i < askers.size(); ++i) {
      if ((waits[i].revents & POLLIN) == 0) continue;
      unsigned char buffer[4096];
      while (::recv(askers[i].fd, buffer, sizeof buffer, 0) > 12) {
        const auto place = static_cast<std::uint16_t>(buffer[0] << 8 | buffer[1]);
        samples.add(osb::bench::seconds_since(askers[i].began[place]) * 1000);
        if ((buffer[3] & 15) != 0 || buffer[7] == 0) ++wrong;  // an rcode, or no answer
        ask(askers[in_turn ? (i + 1) % askers.size() : i], place);
      }
    }
  }
  samples.print(osb::bench::seconds_since(begin),
                "\"wrong\": " + std::to_string(wrong) + ", \"lost\": " + std::to_string(lost));
}
