#include "image/layer_stream.h"

#include <array>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
#include <zlib.h>
#include <zstd.h>

#include "sys/syscall.h"

namespace osb::image {

namespace {

constexpr std::size_t kInput = 128 << 10;
constexpr std::size_t kOutput = 512 << 10;
constexpr std::size_t kBuffers = 6;
// zstd's own default for streams of unknown origin; more is a way to make us use gigabytes of memory.
constexpr int kMaxZstdWindowLog = 27;

Failure damaged(std::string_view how) { return fail(Code::InvalidRequest, "layer: " + std::string(how)); }

// Turns input into output step by step. `in` shrinks by what was used; returns how much of `out` was filled.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual Result<std::size_t> step(std::string_view& in, std::span<char> out) = 0;
  // Whether the input may end here.
  virtual bool complete() const = 0;
  // Whether output is input: then one sum is enough.
  virtual bool plain() const { return false; }
};

class Plain final : public Decoder {
 public:
  Result<std::size_t> step(std::string_view& in, std::span<char> out) override {
    const std::size_t size = std::min(in.size(), out.size());
    std::memcpy(out.data(), in.data(), size);
    in.remove_prefix(size);
    return size;
  }
  bool complete() const override { return true; }
  bool plain() const override { return true; }
};

class Gzip final : public Decoder {
 public:
  Gzip() {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Result<std::size_t> step(std::string_view& in, std::span<char> out) override {
    if (ended_) {
      if (in.empty()) return 0;
      // Several members in a row are one file (pigz, stargz); zeros behind the last are padding.
      if (in.front() == '\0') {
        const std::size_t zeros = in.find_first_not_of('\0');
        in.remove_prefix(std::min(zeros, in.size()));
        if (!in.empty()) return damaged("garbage behind the gzip stream");
        padded_ = true;
        return 0;
      }
      if (padded_) return damaged("garbage behind the gzip stream");
      inflateReset(&stream_);
      ended_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int rc = inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(in.size() - stream_.avail_in);
    if (rc == Z_STREAM_END) {
      ended_ = true;
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
      return damaged("damaged gzip data");
    }
    return out.size() - stream_.avail_out;
  }
  bool complete() const override { return ended_; }

 private:
  z_stream stream_{};
  bool ended_ = false;
  bool padded_ = false;
};

class Zstd final : public Decoder {
 public:
  Zstd() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }
  ~Zstd() override { ZSTD_freeDCtx(context_); }
  Result<std::size_t> step(std::string_view& in, std::span<char> out) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const std::size_t rc = ZSTD_decompressStream(context_, &output, &input);
    if (ZSTD_isError(rc)) return damaged(std::string("damaged zstd data: ") + ZSTD_getErrorName(rc));
    in.remove_prefix(input.pos);
    // A call that had nothing to do answers with what the next frame would need, and says nothing about the last one.
    if (input.pos > 0 || output.pos > 0) complete_ = rc == 0;
    return output.pos;
  }
  bool complete() const override { return complete_; }

 private:
  ZSTD_DCtx* context_;
  bool complete_ = false;
};

std::unique_ptr<Decoder> decoder_for(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return std::make_unique<Gzip>();
  const bool skippable = start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18";
  if (start.starts_with("\x28\xb5\x2f\xfd") || skippable) return std::make_unique<Zstd>();
  return std::make_unique<Plain>();
}

}  // namespace

ByteSource read_descriptor(int fd) {
  return [fd](std::span<char> buffer) -> Result<std::size_t> {
    for (;;) {
      const ssize_t got = ::read(fd, buffer.data(), buffer.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return sys::from_errno("read layer", errno);
    }
  };
}

struct LayerStream::Impl {
  Impl(ByteSource from, std::uint64_t max) : source(std::move(from)), limit(max) {
    for (auto& buffer : buffers) buffer.data.reset(new char[kOutput]);
  }

  struct Buffer {
    std::unique_ptr<char[]> data;  // not a vector: it need not be zeroed
    std::size_t size = 0;
  };

  ByteSource source;
  const std::uint64_t limit;
  std::array<Buffer, kBuffers> buffers;  // a ring: the reader's at `tail`, the thread fills the one at `head`
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t head = 0, tail = 0;  // counted up without end
  bool holding = false;            // the reader looks at buffers[tail]
  bool stop = false;
  bool ended = false;
  std::optional<Error> error;
  std::optional<Digest> compressed;  // absent when there is no compression
  tls::Sha256 uncompressed;
  std::uint64_t bytes = 0;
  std::thread thread;

  // The next free buffer, or nullptr when the reader has gone.
  Buffer* acquire() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stop || head - tail < kBuffers; });
    return stop ? nullptr : &buffers[head % kBuffers];
  }
  void publish(const Buffer& buffer) {
    // Here rather than in next(): the reader has files to write.
    uncompressed.update({buffer.data.get(), buffer.size});
    bytes += buffer.size;
    const std::lock_guard lock(mutex);
    ++head;
    changed.notify_all();
  }

  // The whole stream, on the thread.
  Result<void> decode() {
    tls::Sha256 sum;
    const std::unique_ptr<char[]> input(new char[kInput]);
    std::unique_ptr<Decoder> decoder;
    std::uint64_t total = 0;
    Buffer* out = acquire();
    if (out == nullptr) return {};
    out->size = 0;
    for (;;) {
      std::size_t filled = 0;
      // The first read must bring enough to recognise the format.
      do {
        auto got = source(std::span(input.get() + filled, kInput - filled));
        if (!got) return Failure(got.error());
        if (*got == 0) break;
        filled += *got;
      } while (!decoder && filled < 4);
      std::string_view in(input.get(), filled);
      if (!decoder) decoder = decoder_for(in);
      if (!decoder->plain()) sum.update(in);
      bool more = !in.empty();
      while (more) {
        const std::size_t before = in.size();
        auto made = decoder->step(in, std::span(out->data.get() + out->size, kOutput - out->size));
        if (!made) return Failure(made.error());
        out->size += *made;
        total += *made;
        if (total > limit) return fail(Code::TooLarge, "layer: larger than " + std::to_string(limit) + " bytes");
        const bool full = out->size == kOutput;
        // A full buffer may mean that the decoder holds more, though it has taken all input.
        more = !in.empty() || full;
        if (!full && *made == 0 && in.size() == before) break;
        if (full) {
          publish(*out);
          out = acquire();
          if (out == nullptr) return {};
          out->size = 0;
        }
      }
      if (filled == 0) break;
    }
    if (!decoder->complete()) return damaged("the compressed data ends too early");
    if (out->size > 0) publish(*out);
    if (!decoder->plain()) compressed = Digest(sum.finish());
    return {};
  }

  void run() {
    std::optional<Error> failed;
    try {
      if (auto done = decode(); !done) failed = done.error();
    } catch (const std::exception& e) {
      failed = Error(Code::Internal, std::string("layer: ") + e.what());
    }
    const std::lock_guard lock(mutex);
    error = std::move(failed);
    ended = true;
    changed.notify_all();
  }
};

LayerStream::LayerStream(ByteSource source, std::uint64_t limit)
    : impl_(std::make_unique<Impl>(std::move(source), limit)) {
  // Signals belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LayerStream::~LayerStream() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

Result<std::string_view> LayerStream::next() {
  Impl& i = *impl_;
  std::unique_lock lock(i.mutex);
  if (std::exchange(i.holding, false)) {
    ++i.tail;
    i.changed.notify_all();
  }
  i.changed.wait(lock, [&] { return i.head > i.tail || i.ended; });
  if (i.head == i.tail) {
    if (i.error) return Failure(*i.error);
    return std::string_view();
  }
  i.holding = true;
  const Impl::Buffer& buffer = i.buffers[i.tail % kBuffers];
  return std::string_view(buffer.data.get(), buffer.size);
}

LayerStream::Sums LayerStream::sums() {
  const std::lock_guard lock(impl_->mutex);
  const Digest uncompressed(impl_->uncompressed.finish());
  return {impl_->compressed.value_or(uncompressed), uncompressed, impl_->bytes};
}

}  // namespace osb::image
