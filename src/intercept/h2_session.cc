#include "intercept/h2_session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <nghttp2/nghttp2.h>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "base/stopwatch.h"

namespace osb::intercept {
namespace {

constexpr std::size_t kFieldOverhead = 32;  // RFC 9113, 6.5.2
// A head that we accept can be sent too, with its secrets.
constexpr std::size_t kLongestSentHead = 256 * 1024;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using SessionPtr = std::unique_ptr<nghttp2_session, Freed<nghttp2_session_del>>;
using OptionPtr = std::unique_ptr<nghttp2_option, Freed<nghttp2_option_del>>;
using CallbacksPtr = std::unique_ptr<nghttp2_session_callbacks, Freed<nghttp2_session_callbacks_del>>;

// Memory of the library, with its size in front. Each session has a buffer for the longest frame and seldom fills it:
// as pages of its own it costs what was used. Memory of the heap would be resident, because TLS has used it before.
constexpr std::size_t kSizeRoom = alignof(std::max_align_t);
constexpr std::size_t kOwnPages = 16 * 1024;

char* begin_of(void* memory) { return static_cast<char*>(memory) - kSizeRoom; }
std::size_t size_of(void* memory) {
  std::size_t size = 0;
  std::memcpy(&size, begin_of(memory), sizeof size);
  return size;
}
void* allocate(std::size_t size, void*) {
  const std::size_t whole = size + kSizeRoom;
  void* begin = size < kOwnPages ? std::malloc(whole)
                                 : ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == nullptr || begin == MAP_FAILED) return nullptr;
  std::memcpy(begin, &size, sizeof size);
  return static_cast<char*>(begin) + kSizeRoom;
}
void* allocate_zeros(std::size_t count, std::size_t each, void*) {
  void* memory = allocate(count * each, nullptr);
  return memory == nullptr ? nullptr : std::memset(memory, 0, count * each);
}
void wipe_and_free(void* memory, void*) {
  if (memory == nullptr) return;
  const std::size_t size = size_of(memory);
  if (size >= kOwnPages) {
    ::munmap(begin_of(memory), size + kSizeRoom);  // the kernel overwrites it
    return;
  }
  ::explicit_bzero(memory, size);
  std::free(begin_of(memory));
}
void* grow_and_wipe(void* memory, std::size_t size, void*) {
  void* grown = allocate(size, nullptr);
  if (grown == nullptr || memory == nullptr) return grown;
  std::memcpy(grown, memory, std::min(size, size_of(memory)));
  wipe_and_free(memory, nullptr);
  return grown;
}
nghttp2_mem wiping_memory() {
  return {.mem_user_data = nullptr,
          .malloc = allocate,
          .free = wipe_and_free,
          .calloc = allocate_zeros,
          .realloc = grow_and_wipe};
}

nghttp2_nv field(std::string_view name, std::string_view value, bool secret = false) {
  const auto bytes = [](std::string_view text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          static_cast<std::uint8_t>(secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE)};
}

// Fields in the form of the library. Names in capitals get a copy.
class Fields {
 public:
  void add(std::string_view name, std::string_view value, bool secret = false) {
    all_.push_back(field(name, value, secret));
  }
  void add(const http::Headers& headers, bool secret = false) {
    for (const auto& [name, value] : headers) {
      std::string& lower = *names_.emplace_back(std::make_unique<std::string>(name));
      for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
      add(lower, value, secret);
    }
  }
  const nghttp2_nv* data() const { return all_.data(); }
  std::size_t size() const { return all_.size(); }

 private:
  std::vector<nghttp2_nv> all_;
  std::vector<std::unique_ptr<std::string>> names_;
};

std::string_view view(nghttp2_rcbuf* buffer) {
  const nghttp2_vec bytes = nghttp2_rcbuf_get_buf(buffer);
  return {reinterpret_cast<const char*>(bytes.base), bytes.len};
}

}  // namespace

struct H2Session::Impl {
  Impl(H2Events& events_, const H2Limits& limits_) : events(events_), limits(limits_), tokens(limits_.idle_frames) {}

  static Impl& of(void* user) { return *static_cast<Impl*>(user); }
  static CallbacksPtr callbacks();

  // False: the peer sends too many frames that carry nothing.
  bool spend_token() {
    const auto earned = std::chrono::duration_cast<std::chrono::milliseconds>(since_filled.elapsed()).count() *
                        limits.idle_frames_per_second / 1000;
    if (earned > 0) {
      tokens = static_cast<int>(std::min<std::int64_t>(limits.idle_frames, tokens + earned));
      since_filled = Stopwatch();
    }
    return tokens > 0 && --tokens >= 0;
  }

  int on_begin_frame(const nghttp2_frame_hd& head) {
    const bool carries =
        head.type == NGHTTP2_HEADERS || head.type == NGHTTP2_CONTINUATION || head.type == NGHTTP2_WINDOW_UPDATE ||
        (head.type == NGHTTP2_DATA && (head.length > 0 || (head.flags & NGHTTP2_FLAG_END_STREAM) != 0));
    if (carries || spend_token()) return 0;
    too_idle = true;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  int on_begin_head() {
    head = {};
    head_size = 0;
    return 0;
  }

  int on_field(std::string_view name, std::string_view value) {
    head_size += name.size() + value.size() + kFieldOverhead;
    if (head_size > limits.head) {
      head.oversize = true;
    } else if (name == ":method") {
      head.method = value;
    } else if (name == ":scheme") {
      head.scheme = value;
    } else if (name == ":authority") {
      head.authority = value;
    } else if (name == ":path") {
      head.path = value;
    } else if (name == ":status") {
      head.status = parse_number<int>(value).value_or(502);
    } else {
      head.fields.add(std::string(name), std::string(value));
    }
    return 0;
  }

  void on_headers(const nghttp2_frame& frame) {
    const std::int32_t stream = frame.hd.stream_id;
    const bool last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame.headers.cat != NGHTTP2_HCAT_HEADERS || head.status != 0)
      return events.on_head(stream, std::move(head), last);
    if (head.oversize) {
      nghttp2_submit_rst_stream(session.get(), NGHTTP2_FLAG_NONE, stream, NGHTTP2_ENHANCE_YOUR_CALM);
    } else if (last) {
      events.on_end(stream, std::move(head.fields));
    }
  }

  int on_frame(const nghttp2_frame& frame) {
    if (frame.hd.type == NGHTTP2_HEADERS) {
      on_headers(frame);
    } else if (frame.hd.type == NGHTTP2_DATA && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      events.on_end(frame.hd.stream_id, {});
    } else if (frame.hd.type == NGHTTP2_GOAWAY) {
      events.on_goaway();
    }
    return 0;
  }

  int on_sent(const nghttp2_frame& frame) {
    const bool body = frame.hd.type == NGHTTP2_DATA || frame.hd.type == NGHTTP2_HEADERS;
    if (body && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) events.on_sent_end(frame.hd.stream_id);
    // A peer can make us reset its streams as fast as it could reset them itself.
    if (frame.hd.type == NGHTTP2_RST_STREAM && frame.rst_stream.error_code != NGHTTP2_NO_ERROR && !spend_token()) {
      nghttp2_session_terminate_session(session.get(), NGHTTP2_ENHANCE_YOUR_CALM);
    }
    return 0;
  }

  ssize_t on_pull(std::int32_t stream, std::span<char> into, std::uint32_t& flags) {
    H2Events::Pulled pulled = events.pull(stream, into);
    if (pulled.bytes == 0 && !pulled.ended) return NGHTTP2_ERR_DEFERRED;
    if (pulled.ended) {
      flags |= NGHTTP2_DATA_FLAG_EOF;
      Fields trailers;
      trailers.add(pulled.trailers);
      if (trailers.size() > 0) {
        flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session.get(), stream, trailers.data(), trailers.size());
      }
    }
    return static_cast<ssize_t>(pulled.bytes);
  }

  static nghttp2_data_provider body() {
    return {.source = {.ptr = nullptr},
            .read_callback = [](nghttp2_session*, std::int32_t stream, std::uint8_t* into, std::size_t size,
                                std::uint32_t* flags, nghttp2_data_source*, void* user) {
              return of(user).on_pull(stream, {reinterpret_cast<char*>(into), size}, *flags);
            }};
  }

  H2Events& events;
  const H2Limits limits;
  SessionPtr session;
  H2Head head;  // that is being received: no other frame comes in between
  std::size_t head_size = 0;
  int tokens;
  Stopwatch since_filled;
  bool too_idle = false;
};

CallbacksPtr H2Session::Impl::callbacks() {
  nghttp2_session_callbacks* made = nullptr;
  if (nghttp2_session_callbacks_new(&made) != 0) throw std::bad_alloc();
  nghttp2_session_callbacks_set_on_begin_frame_callback(
      made, [](nghttp2_session*, const nghttp2_frame_hd* head, void* user) { return of(user).on_begin_frame(*head); });
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      made, [](nghttp2_session*, const nghttp2_frame*, void* user) { return of(user).on_begin_head(); });
  nghttp2_session_callbacks_set_on_header_callback2(
      made, [](nghttp2_session*, const nghttp2_frame*, nghttp2_rcbuf* name, nghttp2_rcbuf* value, std::uint8_t,
               void* user) { return of(user).on_field(view(name), view(value)); });
  // By default the library drops such fields and goes on.
  nghttp2_session_callbacks_set_on_invalid_header_callback2(
      made,
      [](nghttp2_session* session, const nghttp2_frame* frame, nghttp2_rcbuf*, nghttp2_rcbuf*, std::uint8_t,
         void*) -> int {
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      made, [](nghttp2_session*, const nghttp2_frame* frame, void* user) { return of(user).on_frame(*frame); });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      made,
      [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes, std::size_t size, void* user) {
        of(user).events.on_data(stream, {reinterpret_cast<const char*>(bytes), size});
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_send_callback(
      made, [](nghttp2_session*, const nghttp2_frame* frame, void* user) { return of(user).on_sent(*frame); });
  nghttp2_session_callbacks_set_on_frame_not_send_callback(
      made, [](nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
        const bool opens = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
        if (opens) of(user).events.on_closed(frame->hd.stream_id, H2Code::Refused);
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      made, [](nghttp2_session*, std::int32_t stream, std::uint32_t code, void* user) {
        of(user).events.on_closed(stream, static_cast<H2Code>(code));
        return 0;
      });
  return CallbacksPtr(made);
}

H2Session::H2Session(Role role, H2Events& events, const H2Limits& limits)
    : impl_(std::make_unique<Impl>(events, limits)) {
  static const CallbacksPtr callbacks = Impl::callbacks();
  static nghttp2_mem wiping = wiping_memory();
  nghttp2_option* made = nullptr;
  if (nghttp2_option_new(&made) != 0) throw std::bad_alloc();
  const OptionPtr option(made);
  nghttp2_option_set_no_auto_window_update(option.get(), 1);
  nghttp2_option_set_max_send_header_block_length(option.get(), kLongestSentHead);
  nghttp2_option_set_no_closed_streams(option.get(), 1);
  nghttp2_session* session = nullptr;
  const bool server = role == Role::Server;
  const int failed = server
                         ? nghttp2_session_server_new3(&session, callbacks.get(), impl_.get(), option.get(), &wiping)
                         : nghttp2_session_client_new3(&session, callbacks.get(), impl_.get(), option.get(), &wiping);
  if (failed != 0) throw std::bad_alloc();
  impl_->session.reset(session);
  const std::array<nghttp2_settings_entry, 4> settings{{
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.head)},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server ? limits.streams : 0},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  }};
  // A server has no setting about pushes.
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), server ? 3 : 4);
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(limits.connection_window));
}

H2Session::~H2Session() = default;

Result<void> H2Session::receive(std::string_view bytes) {
  const ssize_t taken =
      nghttp2_session_mem_recv(impl_->session.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (taken >= 0) return {};
  if (impl_->too_idle || taken == NGHTTP2_ERR_FLOODED) {
    nghttp2_session_terminate_session(impl_->session.get(), NGHTTP2_ENHANCE_YOUR_CALM);
    return fail(Code::TooLarge, "too many frames that carry nothing");
  }
  nghttp2_session_terminate_session(impl_->session.get(), NGHTTP2_PROTOCOL_ERROR);
  return fail(Code::InvalidRequest, std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(taken)));
}

Result<void> H2Session::send(std::string& out, std::size_t enough) {
  while (out.size() < enough) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(impl_->session.get(), &bytes);
    if (size < 0) return fail(Code::Internal, std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(size)));
    if (size == 0) break;
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  return {};
}

bool H2Session::ended() const {
  return nghttp2_session_want_read(impl_->session.get()) == 0 && nghttp2_session_want_write(impl_->session.get()) == 0;
}

Result<std::int32_t> H2Session::request(const H2Head& head, const http::Headers& secrets, bool secret_path,
                                        bool with_body) {
  Fields fields;
  fields.add(":method", head.method);
  fields.add(":scheme", head.scheme);
  fields.add(":authority", head.authority);
  fields.add(":path", head.path, secret_path);
  fields.add(head.fields);
  fields.add(secrets, true);
  const nghttp2_data_provider body = Impl::body();
  const std::int32_t stream = nghttp2_submit_request(impl_->session.get(), nullptr, fields.data(), fields.size(),
                                                     with_body ? &body : nullptr, nullptr);
  if (stream < 0) return fail(Code::Unavailable, std::string("HTTP/2: ") + nghttp2_strerror(stream));
  return stream;
}

void H2Session::respond(std::int32_t stream, const H2Head& head, bool with_body) {
  const std::string status = std::to_string(head.status);
  Fields fields;
  fields.add(":status", status);
  fields.add(head.fields);
  const nghttp2_data_provider body = Impl::body();
  nghttp2_submit_response(impl_->session.get(), stream, fields.data(), fields.size(), with_body ? &body : nullptr);
}

void H2Session::respond_interim(std::int32_t stream, int status) {
  const std::string text = std::to_string(status);
  const nghttp2_nv only = field(":status", text);
  nghttp2_submit_headers(impl_->session.get(), NGHTTP2_FLAG_NONE, stream, nullptr, &only, 1, nullptr);
}

void H2Session::resume(std::int32_t stream) { nghttp2_session_resume_data(impl_->session.get(), stream); }

void H2Session::consume(std::int32_t stream, std::size_t bytes) {
  if (bytes > 0) nghttp2_session_consume(impl_->session.get(), stream, bytes);
}

void H2Session::reset(std::int32_t stream, H2Code code) {
  nghttp2_submit_rst_stream(impl_->session.get(), NGHTTP2_FLAG_NONE, stream, static_cast<std::uint32_t>(code));
}

void H2Session::go_away(H2Code code) {
  nghttp2_submit_goaway(impl_->session.get(), NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(impl_->session.get()), static_cast<std::uint32_t>(code),
                        nullptr, 0);
}

}  // namespace osb::intercept
