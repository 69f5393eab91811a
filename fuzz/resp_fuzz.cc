#include <cstddef>
#include <cstdint>
#include <string>

#include "redis/address.h"
#include "redis/resp.h"
#include "server/renew/renew_intents.h"

// Answers of a Redis, or of a server that is no Redis.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)osb::redis::parse_address(bytes);
  (void)osb::server::read_renew_intent(bytes, osb::Timestamp(std::chrono::seconds(1'700'000'000)));
  for (;;) {
    const std::size_t before = bytes.size();
    const auto reply = osb::redis::take_reply(bytes);
    if (!reply || !*reply) return 0;
    if (bytes.size() >= before) __builtin_trap();
  }
}
