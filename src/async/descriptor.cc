#include "async/descriptor.h"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "sys/syscall.h"

namespace osb {
namespace {

constexpr auto kResult = net::as_tuple(net::use_awaitable);

Failure failure(const char* what, const boost::system::error_code& error) {
  // A descriptor that was closed before the operation began is as cancelled as one that was closed during it.
  if (error == net::error::operation_aborted || error == net::error::bad_descriptor) {
    return fail(Code::Cancelled, std::string(what) + ": cancelled");
  }
  return sys::from_errno(what, error.value());
}

bool is_end(const boost::system::error_code& error) {
  return error == net::error::eof || (error.category() == net::error::get_system_category() && error.value() == EIO);
}

}  // namespace

struct Descriptor::Impl {
  explicit Impl(const net::any_io_executor& executor) : stream(executor) {}
  net::posix::stream_descriptor stream;
};

Descriptor::Descriptor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Descriptor::~Descriptor() = default;
Descriptor::Descriptor(Descriptor&&) noexcept = default;
Descriptor& Descriptor::operator=(Descriptor&&) noexcept = default;

Result<Descriptor> Descriptor::open(net::any_io_executor executor, UniqueFd fd) {
  auto impl = std::make_unique<Impl>(std::move(executor));
  boost::system::error_code error;
  impl->stream.assign(fd.get(), error);
  if (error) return failure("watch descriptor", error);
  (void)fd.release();
  return Descriptor(std::move(impl));
}

net::awaitable<Result<std::size_t>> Descriptor::read_some(std::span<char> buffer) {
  const auto [error, got] = co_await impl_->stream.async_read_some(net::buffer(buffer.data(), buffer.size()), kResult);
  if (!error) co_return got;
  if (is_end(error)) co_return std::size_t{0};
  co_return failure("read", error);
}

Result<std::size_t> Descriptor::try_read(std::span<char> buffer) {
  boost::system::error_code error;
  if (!impl_->stream.non_blocking()) {
    impl_->stream.non_blocking(true, error);
    if (error) return failure("read", error);
  }
  const std::size_t got = impl_->stream.read_some(net::buffer(buffer.data(), buffer.size()), error);
  if (!error) return got;
  if (is_end(error)) return std::size_t{0};
  if (error == net::error::would_block) return fail(Code::Unavailable, "read: nothing there yet");
  return failure("read", error);
}

net::awaitable<Result<void>> Descriptor::write_all(std::string_view data) {
  const auto [error, sent] = co_await net::async_write(impl_->stream, net::buffer(data.data(), data.size()), kResult);
  if (error) co_return failure("write", error);
  co_return Result<void>();
}

net::awaitable<Result<void>> Descriptor::wait_readable() {
  const auto [error] = co_await impl_->stream.async_wait(net::posix::stream_descriptor::wait_read, kResult);
  if (error) co_return failure("wait for descriptor", error);
  co_return Result<void>();
}

void Descriptor::cancel() {
  boost::system::error_code ignored;
  impl_->stream.cancel(ignored);
}

void Descriptor::close() {
  boost::system::error_code ignored;
  impl_->stream.close(ignored);
}

bool Descriptor::is_open() const { return impl_->stream.is_open(); }
int Descriptor::fd() const { return impl_->stream.native_handle(); }
UniqueFd Descriptor::release() { return UniqueFd(impl_->stream.is_open() ? impl_->stream.release() : -1); }

}  // namespace osb
