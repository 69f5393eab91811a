// kill -9 of a process that writes, at random points: changes that were reported as durable must be there, and nothing
// is there by half.

#include <fcntl.h>
#include <map>
#include <random>
#include <signal.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "base/unique_fd.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_fixture.h"
#include "sys/syscall.h"

namespace osb::server::testing {
namespace {

// A line of at most PIPE_BUF bytes: it arrives whole or not at all.
void say(int fd, const std::string& line) {
  if (::write(fd, (line + "\n").c_str(), line.size() + 1) < 0) ::_exit(3);
}

// One client: each step is announced, done, and confirmed, one after the other, for ever.
net::awaitable<void> client(Store& store, int fd, std::string name) {
  for (int n = 0;; ++n) {
    const std::string id = name + "-" + std::to_string(n);
    say(fd, "try create " + id + " 100");
    if (!co_await store.create(sandbox(id, at(0), at(100)), IdempotencyKey{"key-" + id, "f", "answer"})) ::_exit(4);
    say(fd, "did create " + id + " 100");
    if (!store.change_status(id, {"Pending"}, {"Running", "", "", at(1)})) ::_exit(4);
    for (int i = 1; i <= 3; ++i) {
      const std::string value = std::to_string(100 + i);
      say(fd, "try renew " + id + " " + value);
      if (!co_await store.renew(id, at(100 + i), at(1))) ::_exit(4);
      say(fd, "did renew " + id + " " + value);
      say(fd, "try patch " + id + " " + value);
      if (!co_await store.patch_metadata(id, {{"n", value}})) ::_exit(4);
      say(fd, "did patch " + id + " " + value);
    }
    if (n % 2 == 0) continue;
    say(fd, "try remove " + id + " 0");
    if (!co_await store.begin_remove(id)) ::_exit(4);
    say(fd, "did remove " + id + " 0");
  }
}

[[noreturn]] void write_until_killed(const std::filesystem::path& path, int fd, int clients, const std::string& round) {
  auto opened = open_sqlite_store({.path = path});
  if (!opened) ::_exit(5);
  net::io_context io(1);
  for (int i = 0; i < clients; ++i) {
    net::co_spawn(io, client(**opened, fd, round + "-" + std::to_string(i)), net::detached);
  }
  io.run();
  ::_exit(6);
}

// The state that a sandbox must have, and the state that it may have because the answer was on its way.
struct Expected {
  std::map<std::string, std::string> did;  // step -> value
  std::optional<std::pair<std::string, std::string>> trying;

  bool may_be(const std::string& step, const std::string& value) const {
    return trying && trying->first == step && trying->second == value;
  }
};

void check(const Store& store, const std::string& id, const Expected& expected) {
  const SandboxPtr found = store.find(id);
  const auto removals = store.removals();
  const bool removing = std::ranges::find(removals, id) != removals.end();
  const bool known = store.find_key("key-" + id, "f", at(0))->has_value();
  if (!expected.did.contains("create")) {
    EXPECT_EQ(found != nullptr, known) << id << ": sandbox and key are one change";
    return;
  }
  EXPECT_TRUE(known) << id;
  if (expected.did.contains("remove")) {
    EXPECT_TRUE(!found && removing) << id << ": removal was lost";
    return;
  }
  if (!found) {
    EXPECT_TRUE(removing && expected.may_be("remove", "0")) << id << " was lost";
    return;
  }
  const std::string deadline = std::to_string((*found->expires_at - at(0)) / std::chrono::seconds(1));
  const auto renewed = expected.did.find("renew");
  const std::string last = renewed == expected.did.end() ? "100" : renewed->second;
  EXPECT_TRUE(deadline == last || expected.may_be("renew", deadline)) << id << ": " << deadline << ", not " << last;
  const std::string value = found->metadata ? found->metadata->at("n") : "";
  const auto patched = expected.did.find("patch");
  const std::string written = patched == expected.did.end() ? "" : patched->second;
  EXPECT_TRUE(value == written || expected.may_be("patch", value)) << id << ": " << value << ", not " << written;
}

TEST(StoreCrash, ConfirmedChangesAreThereAfterKill9) {
  const osb::testing::TempDir directory;
  const auto path = directory / "store.db";
  std::map<std::string, Expected> expected;
  std::mt19937 random(std::random_device{}());
  const int rounds = 20;
  for (int round = 0; round < rounds; ++round) {
    auto pipe = sys::make_pipe();
    ASSERT_TRUE(pipe);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      pipe->read.reset();
      write_until_killed(path, pipe->write.get(), 8, std::to_string(round));
    }
    pipe->write.reset();
    // Ends at a random number of lines, that is, at a random point of the writer's work.
    const std::size_t enough = std::uniform_int_distribution<std::size_t>(1, 12'000)(random);
    std::string lines;
    char buffer[4096];
    bool killed = false;
    for (;;) {
      if (lines.size() >= enough && !killed) {
        ASSERT_EQ(::kill(pid, SIGKILL), 0);
        killed = true;  // what it still said is in the pipe
      }
      const ssize_t got = ::read(pipe->read.get(), buffer, killed ? sizeof buffer : 256);
      if (got <= 0) break;
      lines.append(buffer, static_cast<std::size_t>(got));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
    std::istringstream text(lines);
    for (std::string did, step, id, value; text >> did >> step >> id >> value;) {
      if (did == "try") {
        expected[id].trying = {step, value};
      } else {
        expected[id].did[step] = value;
        expected[id].trying.reset();
      }
    }
    const auto opened = open_sqlite_store({.path = path});
    ASSERT_TRUE(opened) << opened.error().message;
    for (const auto& [each, want] : expected) check(**opened, each, want);
    if (HasFailure()) return;
  }
  EXPECT_GT(expected.size(), static_cast<std::size_t>(rounds));
}

}  // namespace
}  // namespace osb::server::testing
