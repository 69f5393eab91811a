#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::execd {

// The frames that a driver (a program of drivers/) writes to its socket. A frame is the length of its body in decimal
// digits, one LF or space, and the body: a JSON object with a `type`.
//
//   {"type":"ready"}                                     the driver takes code; `data` may have the driver as it was
//                                                        compiled, as base64 under its file's name
//   {"type":"started","run":3}                           an interrupt reaches the code from here on
//   {"type":"deaf","run":3}                              it does not, until the next `started`; the driver waits
//                                                        for the answer "deaf 3 COUNT" on descriptor 6: the number of
//                                                        interrupts so far
//   {"type":"result","run":3,"data":{"text/plain":"4"}}  the value of the code, by MIME type
//   {"type":"display","run":3,"data":{..}}               the same for something shown on the way; the driver waits for
//                                                        the answer "shown" before it prints more
//   {"type":"error","run":3,"ename":"..","evalue":"..","traceback":[".."]}
//   {"type":"done","run":3,"status":0}                   `status`: of a shell's last command; absent elsewhere
//
// The code that runs in a runner can write to the socket as well. So all of this is foreign input: limits are fixed,
// unknown types are ignored, and an invalid frame makes the runner unusable, nothing else.
struct DriverMessage {
  enum class Type { Ready, Started, Deaf, Result, Display, Error, Done };
  Type type = Type::Ready;
  std::uint64_t run = 0;
  std::map<std::string, std::string> data;  // MIME type (Ready: file) to text, base64 where it is binary
  std::string ename;
  std::string evalue;
  std::vector<std::string> traceback;
  int status = 0;
};

// The longest body of a frame. Drivers shorten values so that they stay below.
inline constexpr std::size_t kMaxFrame = 8 * 1024 * 1024;

// Cuts the bytes of a socket into messages. Memory is bounded by one frame and what feed() is given.
class DriverFrameDecoder {
 public:
  // Appends the messages that are complete now. After an error the stream is broken for good.
  Result<void> feed(std::string_view bytes, std::deque<DriverMessage>& out);
  std::size_t buffered() const { return buffer_.size(); }

 private:
  std::string buffer_;
};

}  // namespace osb::execd
