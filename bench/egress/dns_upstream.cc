// A name server that answers every question with an address of the name's own: what forwarding proxies are measured
// with.
//
// bench_dns_upstream PORT [ADDRESS]: answers 93.184.x.y, with a TTL of an hour, on ADDRESS (127.0.0.1).

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  const int room = 8 << 20;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(static_cast<unsigned short>(std::atoi(argv[1])));
  ::inet_pton(AF_INET, argc > 2 ? argv[2] : "127.0.0.1", &own.sin_addr);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own) < 0) return 1;
  std::puts("listening");
  std::fflush(stdout);
  for (;;) {
    unsigned char message[1024];
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(fd, message, sizeof message - 32, 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 17) continue;
    ssize_t end = 12;
    while (end < got && message[end] != 0) end += message[end] + 1;
    end += 5;
    if (end > got) continue;
    message[2] = 0x81;
    message[3] = 0x80;
    message[7] = 1;
    std::memset(message + 8, 0, 4);
    unsigned hash = 2166136261U;
    for (ssize_t i = 12; i < end; ++i) hash = (hash ^ message[i]) * 16777619U;
    const auto third = static_cast<unsigned char>(hash >> 8), fourth = static_cast<unsigned char>(hash);
    const unsigned char answer[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 93, 184, third, fourth};
    std::memcpy(message + end, answer, sizeof answer);
    ::sendto(fd, message, static_cast<std::size_t>(end) + sizeof answer, 0, reinterpret_cast<sockaddr*>(&from), size);
  }
}
