#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <opensandbox/pty.h>
#include <string>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"

namespace osb::cli {

// Sends what is typed from a thread of its own: a sandbox that does not read its input must not keep us from reading
// its output, or both would wait for each other.
class TypedInput {
 public:
  TypedInput();
  ~TypedInput();
  TypedInput(const TypedInput&) = delete;
  TypedInput& operator=(const TypedInput&) = delete;

  // Where it goes from now on; nullptr: nowhere, it waits. Returns when the connection before is no longer used, so
  // detach() that first.
  void connect(opensandbox::PtyConnection* connection);
  void send(std::string bytes);
  void resize(int columns, int rows);  // the last one counts
  bool full() const;                   // do not read more, until room_fd() is readable
  int room_fd() const { return room_.get(); }
  void clear_room();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  opensandbox::PtyConnection* connection_ = nullptr;
  bool busy_ = false, ending_ = false, resized_ = false, broken_ = false;
  int columns_ = 0, rows_ = 0;
  std::string pending_;
  UniqueFd room_;
  std::thread thread_;
};

}  // namespace osb::cli
