#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/headers.h"

namespace osb::intercept {

// The head of a request or an answer in HTTP/2. Names of fields are in lower case.
struct H2Head {
  std::string method, scheme, authority, path;  // of a request
  int status = 0;                               // of an answer; below 200: another head follows
  http::Headers fields;
  bool oversize = false;  // it was longer than the limit, so that fields are missing
};

// Error codes of RFC 9113, section 7.
enum class H2Code : std::uint32_t { None = 0, Protocol = 1, Internal = 2, Refused = 7, Cancel = 8, Calm = 11 };

// The peer's deeds. Calls come from inside receive() and send(); they may call everything else of any session.
class H2Events {
 public:
  struct Pulled {
    std::size_t bytes = 0;
    bool ended = false;  // nothing follows but the trailers
    http::Headers trailers;
  };

  virtual ~H2Events() = default;
  // `ended`: the peer sends nothing more on this stream, and on_end() is not called.
  virtual void on_head(std::int32_t stream, H2Head head, bool ended) = 0;
  // Every byte must be given back with consume() some time.
  virtual void on_data(std::int32_t stream, std::string_view piece) = 0;
  virtual void on_end(std::int32_t stream, http::Headers trailers) = 0;
  // We have sent the end of our side.
  virtual void on_sent_end(std::int32_t stream) = 0;
  // Both sides have ended, or either has reset it. A stream that never began is closed with Refused.
  virtual void on_closed(std::int32_t stream, H2Code code) = 0;
  virtual void on_goaway() = 0;
  // The next bytes of our side. None, and not ended: the stream waits for resume().
  virtual Pulled pull(std::int32_t stream, std::span<char> into) = 0;
};

struct H2Limits {
  std::uint32_t streams = 128;  // that the peer may have open at once
  std::uint32_t stream_window = 256 * 1024;
  std::uint32_t connection_window = 64 * 1024;  // the bytes that on_data() has given and consume() has not taken back
  std::size_t head = 64 * 1024;                 // fields of one head, 32 bytes added for each
  int idle_frames = 1000;            // frames that carry nothing (pings, settings, priorities, resets by us) at once
  int idle_frames_per_second = 100;  // and after that; more end the connection
};

// One end of an HTTP/2 connection (RFC 9113) without its socket: bytes in, bytes out, and the streams in between. It is
// strict: a head with a name or value that is not allowed resets its stream, CONNECT with :protocol and pushed streams
// are not accepted. libnghttp2 does the work; no other file knows it.
class H2Session {
 public:
  enum class Role : std::uint8_t { Server, Client };
  // `events` outlives it. Its memory is overwritten before it is given back: requests hold secrets.
  H2Session(Role role, H2Events& events, const H2Limits& limits = {});
  ~H2Session();
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;

  // Bytes of the peer. An error: the connection cannot go on; send() has the last frame that tells the peer.
  Result<void> receive(std::string_view bytes);
  // Appends frames until `out` has at least `enough` bytes or there are no more.
  Result<void> send(std::string& out, std::size_t enough);
  // Both sides have agreed to end, and all streams have.
  bool ended() const;

  // Opens a stream. `secrets`: fields that compression tables never see; :path is one of them if `secret_path`.
  Result<std::int32_t> request(const H2Head& head, const http::Headers& secrets, bool secret_path, bool with_body);
  void respond(std::int32_t stream, const H2Head& head, bool with_body);
  void respond_interim(std::int32_t stream, int status);
  // pull() has bytes again.
  void resume(std::int32_t stream);
  // Bytes of on_data() are used up: the peer may send as many. The stream may be closed.
  void consume(std::int32_t stream, std::size_t bytes);
  void reset(std::int32_t stream, H2Code code);
  // No new streams; those that are open go on.
  void go_away(H2Code code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osb::intercept
