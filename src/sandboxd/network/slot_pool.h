#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/network/bandwidth.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

class Firewall;

enum class NetworkMode : std::uint8_t {
  Bridge,  // the contract's name for the default: an own address behind NAT
  None,    // loopback only; user namespace and id range as usual
};

// The kind of process in a slot that an earlier daemon gave away.
enum class SlotHolder : std::uint8_t {
  Sandbox,        // PID 1: user and network namespace are the slot's
  Runtime,        // a process of an OCI runtime: only the network namespace is
  InHostNetwork,  // PID 1 in the host's network: only the user namespace is
};

// The namespaces that a sandbox starts in. Closing both descriptors after its last process has ended lets the kernel
// free the namespaces and the veth; nothing else holds them.
struct Slot {
  unsigned index = 0;
  NetworkMode mode = NetworkMode::Bridge;
  std::uint32_t id_base = 0;  // ids 0..65535 inside are id_base.. outside
  UniqueFd userns{};
  UniqueFd netns{};           // owned by userns; none in one that was adopted of a sandbox in the host's network
  std::string address{};      // "10.90.0.2"; empty with None
  std::string interface{};    // the host's end of the veth; empty with None. Inside it is eth0.
  std::uint64_t packets = 0;  // of the interface when the slot was last clean; the pool's own note
  bool shaped = false;        // it may have a limit of bandwidth; the pool's own note
};

// Slots for sandboxes, from any thread. SlotPool says what the calls promise; tests have an implementation of their
// own.
class Slots {
 public:
  virtual ~Slots() = default;
  virtual Result<Slot> adopt(unsigned index, NetworkMode mode, pid_t pid, SlotHolder holder = SlotHolder::Sandbox) = 0;
  virtual Result<Slot> take(NetworkMode mode) = 0;
  virtual Result<void> limit_bandwidth(Slot& slot, const Bandwidth& limit) = 0;
  virtual void give_back(Slot slot, bool recyclable) = 0;

  struct Counts {
    unsigned ready = 0;
    unsigned taken = 0;     // adopted ones included
    unsigned draining = 0;  // given back, or dropped and not yet gone from the kernel
  };
  virtual Counts counts() const = 0;
};

// Slots ready for use. All functions may be called from any thread (of the network namespace where create() was called)
// and block (about a millisecond for a new slot); one thread of the pool's own refills it. An index is never in two
// hands: not while a slot is out, and not while the kernel still tears an old namespace of it down (its interface
// exists).
//
// At start: construct, adopt() what lives, firewall.install(), start(). Adopted and new slots are admitted to the
// firewall, dropped ones expelled.
class SlotPool final : public Slots {
 public:
  // `firewall` outlives the pool.
  static Result<std::unique_ptr<SlotPool>> create(const NetworkConfig& config, Firewall& firewall);
  ~SlotPool() override;  // slots in the pool are dropped, those taken are not touched

  // A sandbox that outlived an earlier daemon: its namespaces come from /proc/<pid>/ns. Refused unless its user
  // namespace has the id range of `index` and, with Bridge, the interface of `index` leads into its network namespace.
  // A Runtime is recognised by the interface alone, a sandbox in the host's network by its id range. The caller has
  // made sure that `pid` is the recorded process (start time). Before start() only.
  Result<Slot> adopt(unsigned index, NetworkMode mode, pid_t pid, SlotHolder holder = SlotHolder::Sandbox) override;

  // Begins refilling. Interfaces of ours that were not adopted count as being torn down. `no_bridge` says why this host
  // cannot have slots with a network, if so: take(Bridge) answers Code::Unsupported with it. Such a pool needs no
  // installed firewall.
  Result<void> start(std::string no_bridge = "");

  // From the pool, or made at once when it is empty. Code::Unavailable "no address left: .." when all are in use.
  Result<Slot> take(NetworkMode mode) override;

  // Of a slot with Bridge that is taken or was adopted; the last call counts, and giving the slot back ends it. The
  // sandbox sees the limit of sending as a slow link; the firewall has it too, for packets that go round the link's
  // queue. About 0.2 ms.
  Result<void> limit_bandwidth(Slot& slot, const Bandwidth& limit) override;

  // `recyclable` says two things only the caller knows: PID 1 of the sandbox has been reaped (the kernel's proof that
  // no process of its pid namespace is left), and the sandbox had no way to change its namespaces (no CAP_NET_ADMIN, no
  // writable /proc/sys, no keyrings). The pool itself ends the sockets that are left and makes the kernel forget
  // the address's connections (see recycle_batch); a slot where a socket remains (a process outside holds it), or
  // without a network namespace, is dropped. That happens on the pool's thread. Interface counters are not reset. From
  // the return on until the slot is ready for another sandbox the host refuses connections to its address.
  void give_back(Slot slot, bool recyclable) override;

  Counts counts() const override;

  // Returns when the pool is full and all that was given back is recycled or dropped.
  void wait_until_idle();

 private:
  class Impl;
  explicit SlotPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace osb::sandboxd
