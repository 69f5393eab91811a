#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::runtime {

// The ports of the engine's host that sandboxes may have.
struct PortRange {
  std::uint16_t first = 40000, last = 60000;
};

// Ports of the engine's host for sandboxes. A port that was taken is bound until it is settled, so that
// neither another create nor another program nor the kernel picks it: bound with SO_REUSEADDR and without listening,
// which lets the engine, and only a program that asks for exactly this port in the same way, bind it as well.
class PortPool {
 public:
  // `address`: where the engine will publish. `bind` false: the engine is elsewhere, a clash shows when it starts.
  PortPool(std::string address, bool bind, PortRange range = {})
      : address_(std::move(address)), bind_(bind), range_(range), random_(std::random_device()()) {}

  Result<std::uint16_t> take();  // Code::Exhausted
  // The engine holds it now.
  void settle(std::uint16_t port);
  // A port of a container that was found.
  void note(std::uint16_t port);
  void give_back(std::uint16_t port);

 private:
  std::string address_;
  bool bind_;
  PortRange range_;
  std::mt19937 random_;
  std::map<std::uint16_t, UniqueFd> taken_;
};

}  // namespace osb::runtime
