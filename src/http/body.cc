#include "http/body.h"

#include <algorithm>

#include "base/concat.h"

namespace osb::http {

net::awaitable<Result<std::string>> BodySource::read_all(std::size_t limit) {
  // A declared length is only a promise: it decides early, but reserves little.
  constexpr std::size_t kReserveAtMost = std::size_t{1} << 20;
  const auto too_large = [limit] { return fail(Code::TooLarge, concat("body is larger than ", limit, " bytes")); };

  std::string all;
  if (const auto declared = length()) {
    if (*declared > limit) co_return too_large();
    all.reserve(std::min<std::uint64_t>(*declared, kReserveAtMost));
  }
  while (true) {
    const Result<std::string_view> piece = co_await read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return all;
    if (piece->size() > limit - all.size()) co_return too_large();
    all.append(*piece);
  }
}

net::awaitable<Result<void>> BodyWriter::write(std::string_view piece) {
  co_return co_await write(std::span<const std::string_view>(&piece, 1));
}

}  // namespace osb::http
