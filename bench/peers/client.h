#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>

#include "samples.h"

namespace osb::bench {

// Milliseconds since a create was asked for. Negative: this peer has no such moment, or it cannot be measured.
struct Clocks {
  double started = -1;   // PID 1 runs, by the time that its starter has noted
  double running = -1;   // the peer says so: its answer, or the end of `run --detach`
  double answered = -1;  // execd has answered
  double output = -1;    // the first output has come
};

enum class Until {
  Running,
  Answered,  // kExecd runs in it, as its only process where the peer has no execd of its own
  Output,
};

// Makes sandboxes of one peer, for one thread. Failures are thrown; nothing half-made is left then.
class Client {
 public:
  virtual ~Client() = default;

  // Makes connections that the next create needs: not part of its time.
  virtual void prepare() {}
  // A sandbox that stays, from a busybox image.
  virtual std::string create(Until until, Clocks& clocks) = 0;
  virtual void remove(const std::string& id) = 0;

  // Not every peer has these.
  virtual void command(const std::string&) { none("commands"); }           // `true`, to its end
  virtual double first_byte(const std::string&) { none("commands"); }      // of `echo first`, in milliseconds
  virtual void stream(const std::string&, unsigned) { none("commands"); }  // so many MiB of lines, to the end
  virtual void upload(const std::string&, std::string_view) { none("files"); }
  virtual void download(const std::string&, std::size_t) { none("files"); }  // what was uploaded
  virtual void get(const std::string&) { none("questions"); }
  virtual void pause(const std::string&) { none("pause"); }
  virtual void resume(const std::string&) { none("pause"); }
  virtual std::string snapshot(const std::string&) { none("snapshots"); }
  virtual std::string restore(const std::string&, Clocks&) { none("snapshots"); }
  virtual void remove_snapshot(const std::string&) { none("snapshots"); }

 protected:
  [[noreturn]] static void none(const std::string& what) { throw std::runtime_error("this peer has no " + what); }
};

// Sandboxes of every peer sleep that many seconds; those without an interface for commands run `echo first` before.
inline constexpr const char* kStay = "1000000";
// In every image, as the next one.
inline constexpr const char* kExecd = "/bin/execd";
// 1 MiB of 80-byte lines.
inline constexpr const char* kLines = "/lines";
inline std::string print_lines(unsigned mib) {
  std::string command = "cat";
  for (unsigned i = 0; i < mib; ++i) command += std::string(" ") + kLines;
  return command;
}

// None is the beginning of another, which runsc would take for it.
inline std::string new_name() {
  static std::atomic<unsigned> next = 100'000;
  return "bench-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

// The program below a lifecycle API that notes when processes were started.
struct StartedBy {
  enum class Kind { Engine, Sandboxd } kind = Kind::Engine;
  std::string socket;  // empty: not known
};
// The lifecycle API, ours or the original's, on a TCP port of this host.
std::unique_ptr<Client> lifecycle_client(std::uint16_t port, std::string key, std::string image, StartedBy started);
// A Docker Engine at its socket.
std::unique_ptr<Client> engine_client(std::string socket, std::string image);
// runc or runsc, and arguments that come before its commands.
std::unique_ptr<Client> oci_client(std::string program, std::string bundle);
// bubblewrap on a root directory: a sandbox is a child of this process and ends with it.
std::unique_ptr<Client> bwrap_client(std::string root);

// Since 1970, for comparison with what an engine tells.
double wall_ms();
// "2026-01-31T12:34:56.123456789Z" of an engine, likewise.
double parse_wall_ms(const std::string& text);

}  // namespace osb::bench
