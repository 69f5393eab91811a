// Archives and directories: transfers of ImageService at the speed of the client.

#include <algorithm>
#include <atomic>
#include <climits>
#include <fcntl.h>
#include <ranges>
#include <unistd.h>

#include "async/descriptor.h"
#include "base/stopwatch.h"
#include "image/image_exporter.h"
#include "sandboxd/image/image_service.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

namespace {

namespace fs = std::filesystem;
using image::ImageRecord;
using image::Reference;

constexpr int kPipeBytes = 1 << 20;
constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kBytesPerCheck = 16 << 20;  // of the disk's reserve

Result<Reference> parse_name(const std::string& name) {
  if (name == kHostImage) return fail(Code::InvalidRequest, "image: the name host means this machine itself");
  return Reference::parse(name);
}

// Where the open directory really is.
Result<fs::path> path_of(int fd) {
  std::string out(PATH_MAX, '\0');
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), out.data(), out.size());
  if (length < 0) return sys::from_errno("readlink", errno);
  out.resize(static_cast<std::size_t>(length));
  return fs::path(out);
}

bool is_below(const fs::path& path, const fs::path& directory) {
  const auto [rest, ignored] = std::ranges::mismatch(directory, path);
  return rest == directory.end();
}

// The time that is left for one peer.
class Patience {
 public:
  explicit Patience(const TransferLimits& limits) : limits_(limits), left_(limits.patience) {}

  // Code::Timeout. `bytes_of` tells how many bytes the result has moved.
  template <typename T, typename BytesOf>
  net::awaitable<Result<T>> wait(net::awaitable<Result<T>> peer, BytesOf bytes_of) {
    const Stopwatch time;
    auto result = co_await with_timeout(std::move(peer), left_);
    if (!result) co_return result;
    left_ -= time.elapsed();
    const double earned = static_cast<double>(bytes_of(result)) / static_cast<double>(limits_.bytes_per_second);
    left_ += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(earned));
    left_ = std::clamp<std::chrono::nanoseconds>(left_, std::chrono::nanoseconds(0), limits_.patience);
    co_return result;
  }
  std::string complaint() const {
    return "too slow: at least " + std::to_string(limits_.bytes_per_second) + " bytes a second are expected";
  }

 private:
  const TransferLimits& limits_;
  std::chrono::nanoseconds left_;
};

}  // namespace

// A pipe between the loop, which talks to the peer, and a thread, which talks to the store.
struct ImageService::Transfer {
  Transfer(net::any_io_executor executor, TransferPermit given) : permit(std::move(given)), done(std::move(executor)) {}

  TransferPermit permit;  // until the thread has finished
  std::optional<Descriptor> loop_end;
  UniqueFd thread_end;
  std::atomic<bool> whole = false;  // all of the body is in the pipe: its end is not an early one
  // These errors stay if an exception ends the thread's work.
  Result<std::vector<ImageInfo>> imported = fail(Code::Internal, "load image: an internal error, see sandboxd's log");
  Result<void> exported = fail(Code::Internal, "send archive: an internal error, see sandboxd's log");
  Event done;  // the thread has finished
};

net::awaitable<Result<ImageService::TransferPermit>> ImageService::take_permit(std::size_t& taken, std::size_t most,
                                                                               std::string what) {
  const auto free = [this, &taken, most] { return taken < most || closed_; };
  const auto wait = [](Notifier& changed, auto until) -> net::awaitable<Result<void>> {
    if (!co_await changed.wait_until(until)) co_return fail(Code::Cancelled, "");
    co_return Result<void>();
  };
  if (!free()) {
    const auto came = co_await with_timeout(wait(permit_free_, free), config_.transfers.wait);
    if (!came && came.error().code == Code::Timeout) {
      co_return fail(Code::Exhausted, "this host " + what + " " + std::to_string(most) +
                                          " archives already, its limit; try again when one of them is through");
    }
    if (!came) co_return fail(Code::Cancelled, "archive: cancelled");
  }
  if (closed_) co_return fail(Code::Cancelled, "archive: cancelled");
  ++taken;
  co_return TransferPermit(this, [this, count = &taken](void*) {
    --*count;
    permit_free_.notify_all();
  });
}

net::awaitable<Result<ImageService::TransferPermit>> ImageService::send_permit() {
  return take_permit(sends_, config_.transfers.sends, "sends");
}

Result<std::shared_ptr<ImageService::Transfer>> ImageService::begin_transfer(TransferPermit permit, bool incoming) {
  if (closed_) return fail(Code::Cancelled, "archive: cancelled");
  auto pipe = sys::make_pipe();
  if (!pipe) return Failure(pipe.error());
  (void)::fcntl(pipe->write.get(), F_SETPIPE_SZ, kPipeBytes);
  auto loop_end = Descriptor::open(executor_, std::move(incoming ? pipe->write : pipe->read));
  if (!loop_end) return Failure(loop_end.error());
  auto transfer = std::make_shared<Transfer>(executor_, std::move(permit));
  transfer->loop_end = std::move(*loop_end);
  transfer->thread_end = std::move(incoming ? pipe->read : pipe->write);
  transfers_.insert(transfer.get());
  return transfer;
}

void ImageService::end_transfers() {
  for (Transfer* transfer : transfers_) transfer->loop_end->close();
  permit_free_.notify_all();
}

// --- load --------------------------------------------------------------------------------------------------------

Result<image::ImportOptions> ImageService::import_options(const std::optional<std::string>& name) const {
  image::ImportOptions options;
  options.platform = config_.platform;
  if (!name) return options;
  auto reference = parse_name(*name);
  if (!reference) return Failure(reference.error());
  options.name = std::move(*reference);
  return options;
}

net::awaitable<Result<std::vector<ImageInfo>>> ImageService::import(image::ByteSource source,
                                                                    image::ImportOptions options) {
  auto images = co_await pool_.run([&] { return image::import_archive(*store_, std::move(source), options); });
  if (!images) co_return Failure(explain(images.error()));
  std::vector<ImageInfo> out;
  for (const image::ImportedImage& made : *images) out.push_back(info(made.record));
  for (ImageInfo& made : out) made.in_use = false;  // but by ourselves, until this returns
  collect_later();
  co_return out;
}

// The end of a transfer, however it comes.
struct ImageService::TransferEnd {
  ImageService& service;
  Transfer& transfer;
  ~TransferEnd() {
    service.transfers_.erase(&transfer);
    transfer.permit.reset();
    transfer.thread_end.reset();
    transfer.done.set();
  }
};

net::awaitable<void> ImageService::run_import(std::shared_ptr<Transfer> transfer, image::ImportOptions options) {
  const TransferEnd end{*this, *transfer};
  auto source = [this, transfer, since_check = std::size_t{0},
                 read = image::read_descriptor(transfer->thread_end.get())](
                    std::span<char> buffer) mutable -> Result<std::size_t> {
    auto got = read(buffer);
    since_check += got.value_or(0);
    if (since_check > kBytesPerCheck) {
      since_check = 0;
      if (auto room = config_.reserve.check(); !room) return Failure(room.error());
    }
    if (got && *got == 0 && !transfer->whole) return fail(Code::InvalidRequest, "archive: cut off before its end");
    return got;
  };
  transfer->imported = co_await import(std::move(source), std::move(options));
}

net::awaitable<Result<std::vector<ImageInfo>>> ImageService::load(http::BodySource& body,
                                                                  std::optional<std::string> name) {
  auto options = import_options(name);
  if (!options) co_return Failure(options.error());
  if (auto room = config_.reserve.check(); !room) co_return with_context("load image", room.error());
  auto permit = co_await take_permit(loads_, config_.transfers.loads, "loads");
  if (!permit) co_return Failure(permit.error());
  auto begun = begin_transfer(std::move(*permit), true);
  if (!begun) co_return Failure(begun.error());
  const std::shared_ptr<Transfer> transfer = std::move(*begun);
  // Cancellation closes the pipe, and the thread then fails by itself.
  struct Close {
    Descriptor& end;
    ~Close() { end.close(); }
  } const close{*transfer->loop_end};
  tasks_.spawn("load image", run_import(transfer, std::move(*options)));
  std::optional<Error> broken;
  Patience patience(config_.transfers);
  for (;;) {
    const auto piece = co_await patience.wait(body.read(), [](const auto& got) { return got->size(); });
    if (!piece) {
      broken = piece.error();
      if (broken->code == Code::Timeout)
        broken = Error(Code::InvalidRequest, "the archive comes " + patience.complaint());
      break;
    }
    if (piece->empty()) {
      transfer->whole = true;
      break;
    }
    // A reader that has gone knows why.
    if (!co_await transfer->loop_end->write_all(*piece)) break;
  }
  transfer->loop_end->close();
  if (!co_await transfer->done.wait()) co_return fail(Code::Cancelled, "load image: cancelled");
  if (broken) co_return with_context("load image", *broken);
  co_return std::move(transfer->imported);
}

net::awaitable<Result<std::vector<ImageInfo>>> ImageService::load(UniqueFd file, std::optional<std::string> name) {
  auto options = import_options(name);
  if (!options) co_return Failure(options.error());
  co_return co_await import(image::read_descriptor(file.get()), std::move(*options));
}

// --- directories -------------------------------------------------------------------------------------------------

net::awaitable<Result<ImageInfo>> ImageService::add_directory(fs::path path, std::string name) {
  const auto reference = parse_name(name);
  if (!reference) co_return Failure(reference.error());
  auto made = co_await pool_.run([&]() -> Result<image::ImportedImage> {
    if (auto room = config_.reserve.check(); !room) return Failure(room.error());
    const auto is_allowed = [&](const fs::path& place) {
      return std::ranges::any_of(config_.allowed_directories, [&](const fs::path& directory) {
        std::error_code failed;
        const fs::path canonical = fs::canonical(directory, failed);
        return is_below(place, directory) || (!failed && is_below(place, canonical));
      });
    };
    const auto forbidden = [&] {
      return fail(Code::Forbidden,
                  "directory " + path.string() + " is not one that sandboxd's configuration allows as an image");
    };
    // Finds the place without opening it. Outside of the allowed directories the answer does not tell what is there.
    auto place = sys::open_at(AT_FDCWD, path.string(), O_PATH | O_DIRECTORY);
    if (!place) return is_allowed(path.lexically_normal()) ? Failure(place.error()) : forbidden();
    const auto real = path_of(place->get());
    if (!real) return Failure(real.error());
    if (!is_allowed(*real)) return forbidden();
    auto root = sys::open_at(place->get(), ".", O_RDONLY | O_DIRECTORY);
    if (!root) return Failure(root.error());
    return image::import_directory(*store_, std::move(*root), *reference);
  });
  if (!made) co_return with_context("add directory " + path.string(), explain(made.error()));
  made->layers.clear();
  collect_later();
  co_return info(made->record);
}

// --- save --------------------------------------------------------------------------------------------------------

net::awaitable<void> ImageService::run_export(std::shared_ptr<Transfer> transfer, ArchiveWriter write) {
  const TransferEnd end{*this, *transfer};
  transfer->exported = co_await pool_.run([&]() -> Result<void> {
    // The reader on the loop waits until this end closes, also after an error.
    struct Close {
      UniqueFd& end;
      ~Close() { end.reset(); }
    } const close{transfer->thread_end};
    return write([&](std::string_view bytes) -> Result<void> {
      while (!bytes.empty()) {
        const ssize_t wrote = ::write(transfer->thread_end.get(), bytes.data(), bytes.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return sys::from_errno("write archive", errno);
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
      }
      return {};
    });
  });
}

net::awaitable<Result<void>> ImageService::send_archive(std::string what, ArchiveWriter write, http::BodyWriter& body,
                                                        TransferPermit permit) {
  if (!permit) {
    auto taken = co_await send_permit();
    if (!taken) co_return Failure(taken.error());
    permit = std::move(*taken);
  }
  auto begun = begin_transfer(std::move(permit), false);
  if (!begun) co_return Failure(begun.error());
  const std::shared_ptr<Transfer> transfer = std::move(*begun);
  struct Close {
    Descriptor& end;
    ~Close() { end.close(); }
  } const close{*transfer->loop_end};
  tasks_.spawn("send archive", run_export(transfer, std::move(write)));
  std::string buffer(kPiece, '\0');
  Result<void> sent;
  Patience patience(config_.transfers);
  for (;;) {
    const auto got = co_await transfer->loop_end->read_some(buffer);
    if (!got) sent = Failure(got.error());
    if (!got || *got == 0) break;
    sent = co_await patience.wait(body.write(std::string_view(buffer.data(), *got)), [&](const auto&) { return *got; });
    if (!sent && sent.error().code == Code::Timeout)
      sent = fail(Code::Timeout, "the reader is " + patience.complaint());
    if (!sent) break;
  }
  transfer->loop_end->close();
  if (!co_await transfer->done.wait()) co_return fail(Code::Cancelled, "save " + what + ": cancelled");
  if (!sent) co_return with_context("save " + what, sent.error());
  if (!transfer->exported) co_return Failure(explain(transfer->exported.error()));
  co_return Result<void>();
}

net::awaitable<Result<void>> ImageService::save(std::string name, http::BodyWriter& body, TransferPermit permit) {
  const auto reference = parse_name(name);
  if (!reference) co_return Failure(reference.error());
  auto record = store_->image(*reference);
  if (!record) co_return Failure(record.error());
  auto image = resolve(*record);
  if (!image) co_return Failure(image.error());
  ArchiveWriter write = [record = std::move(*record),
                         image = std::move(*image)](image::ByteSink sink) mutable -> Result<void> {
    image::ExportImage what;
    const auto own_name = Reference::parse(record.name);
    if (own_name && !own_name->digest) what.names = {*own_name};
    what.config = record.config;
    std::vector<UniqueFd> roots;
    for (const auto& layer : std::views::reverse(image.layers)) {
      auto root = sys::open_at(AT_FDCWD, layer.root().string(), O_RDONLY | O_DIRECTORY);
      if (!root) return Failure(root.error());
      what.layers.push_back(root->get());
      roots.push_back(std::move(*root));
    }
    auto done = image::export_image(what, std::move(sink));
    if (!done) return Failure(done.error());
    return {};
  };
  co_return co_await send_archive("image " + reference->familiar(), std::move(write), body, std::move(permit));
}

}  // namespace osb::sandboxd
