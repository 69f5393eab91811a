#include "execd/init/entrypoint_log.h"

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/await.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

const timespec kNoon{1735819200, 5};
const std::string kStamp = "2025-01-02T12:00:00.000000005Z ";

UniqueFd append_to(const std::string& path) {
  auto file = sys::open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND);
  EXPECT_TRUE(file);
  return std::move(*file);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// No file of this process may grow beyond so many bytes; a write beyond them fails.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(TimedLogWriter, EveryLineGetsTheTimeOfItsFirstByte) {
  const testing::TempDir dir;
  TimedLogWriter log(append_to(dir / "log"));
  log.write("one\n\ntwo", kNoon);
  log.write(" goes on", {kNoon.tv_sec + 1, 0});
  log.write("\nthree\n", {kNoon.tv_sec + 2, 0});
  EXPECT_EQ(content_of(dir / "log"),
            kStamp + "one\n" + kStamp + "\n" + kStamp + "two goes on\n2025-01-02T12:00:02.000000000Z three\n");
}

TEST(TimedLogWriter, MoreLinesThanOneCallTakesAreAllThere) {
  const testing::TempDir dir;
  TimedLogWriter log(append_to(dir / "log"));
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += std::to_string(i) + "\n";
  log.write(bytes, kNoon);
  EXPECT_EQ(without_log_stamps(content_of(dir / "log")), bytes);
}

TEST(TimedLogWriter, AFileThatIsFullLosesOutputAndSaysSoLater) {
  const testing::TempDir dir;
  TimedLogWriter log(append_to(dir / "log"));
  log.write("kept\n", kNoon);
  {
    const FileLimit limit(40);
    log.write("too long for what is left\n", kNoon);
    log.write("nothing of this\n", kNoon);
  }
  log.write("back\n", kNoon);
  const std::string text = content_of(dir / "log");
  EXPECT_TRUE(text.starts_with(kStamp + "kept\n")) << text;
  EXPECT_TRUE(text.ends_with("\n" + kStamp + "back\n")) << text;
  EXPECT_NE(text.find("\n" + kStamp + "execd: "), std::string::npos) << text;
  EXPECT_NE(text.find("bytes of output are missing here: File too large\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("nothing of this"), std::string::npos) << text;
}

TEST(TimedLogWriter, ADeviceThatIsAlwaysFullIsNoProblem) {
  TimedLogWriter log(append_to("/dev/full"));
  for (int i = 0; i < 100; ++i) log.write("lost\n", kNoon);
}

TEST(EntrypointLog, OutputBeforeADrainIsInTheFileAfterIt) {
  const testing::TempDir dir;
  net::io_context io(1);
  BlockingPool pool(2);
  auto log = EntrypointLog::open(io.get_executor(), pool, append_to(dir / "log"));
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ(::write((*log)->writer(), "a\0\xFF b", 5), 5);
  (*log)->drain();
  EXPECT_EQ(without_log_stamps(content_of(dir / "log")), std::string_view("a\0\xFF b", 5));
  (*log)->drain();
  EXPECT_EQ(without_log_stamps(content_of(dir / "log")).size(), 5U);
}

TEST(EntrypointLog, RunsUntilTheLastWriterHasGone) {
  const testing::TempDir dir;
  net::io_context io(1);
  BlockingPool pool(2);
  auto log = EntrypointLog::open(io.get_executor(), pool, append_to(dir / "log"));
  ASSERT_TRUE(log) << log.error().message;
  UniqueFd writer(::dup((*log)->writer()));
  (*log)->close_writer();
  std::string wanted;
  for (int i = 0; i < 20000; ++i) wanted += "line " + std::to_string(i) + "\n";
  const auto write_all = [&]() -> net::awaitable<void> {
    co_await pool.run([&] {
      for (std::size_t at = 0; at < wanted.size();) {
        const ssize_t size = ::write(writer.get(), wanted.data() + at, wanted.size() - at);
        if (size <= 0) return;
        at += static_cast<std::size_t>(size);
      }
      writer.reset();
    });
  };
  net::co_spawn(io, write_all(), [](std::exception_ptr) {});
  testing::await(io, (*log)->run());
  EXPECT_EQ(without_log_stamps(content_of(dir / "log")), wanted);
}

}  // namespace
}  // namespace osb::execd
