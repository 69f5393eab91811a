// The commands that bench/execd lets execd run.
//
//   lines BYTES   text in lines of 80 bytes, as fast as the pipe takes it
//   clock         the monotonic clock in nanoseconds, taken just before it is written

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <unistd.h>

namespace {

constexpr std::string_view kLine = "The quick brown fox jumps over the lazy dog; pack my box with 5 dozen liquor ju\n";
static_assert(kLine.size() == 80);

int lines(std::uint64_t bytes) {
  std::string block;
  while (block.size() < 64 * 1024) block += kLine;
  while (bytes > 0) {
    const std::string_view piece = std::string_view(block).substr(0, bytes);
    const ssize_t written = ::write(STDOUT_FILENO, piece.data(), piece.size());
    if (written <= 0) return EXIT_FAILURE;
    // A short write would shift the lines; a blocking pipe takes everything.
    bytes -= static_cast<std::uint64_t>(written);
  }
  return EXIT_SUCCESS;
}

int clock_line() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  char text[32];
  const int size =
      std::snprintf(text, sizeof text, "%lld\n", static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec);
  return ::write(STDOUT_FILENO, text, static_cast<std::size_t>(size)) == size ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "lines" && argc == 3) return lines(std::strtoull(argv[2], nullptr, 10));
  if (what == "clock" && argc == 2) return clock_line();
  std::fprintf(stderr, "usage: %s lines BYTES | clock\n", argv[0]);
  return EXIT_FAILURE;
}
