#include "sandboxd/sandbox/sandbox_logs.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>

#include "async/race.h"
#include "base/timed_log.h"
#include "sandboxd/sandbox/file_tail.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

using namespace race;
using api::native::State;

namespace {

constexpr const char* kLog = "entrypoint.log";
constexpr std::size_t kChunk = 128 << 10;

// The bytes that are kept of a log, and how often logs are looked at: a sandbox that writes faster fills the disk no
// more than by any other file of its own.
constexpr std::uint64_t kLogBytes = 16 << 20;
constexpr std::chrono::seconds kLogInterval(30);

// The line that a reader gets in place of the bytes that it was too slow for.
std::string note_of(std::uint64_t gone, bool in_line, const Clock& clock) {
  const auto since_epoch = std::chrono::nanoseconds(clock.now().time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const LogStamp stamp = make_log_stamp({seconds.count(), (since_epoch - seconds).count()});
  return (in_line ? "\n" : "") + std::string(stamp.data(), stamp.size()) + "sandboxd: " + std::to_string(gone) +
         " bytes of the log are gone, they were not read in time\n";
}

}  // namespace

// A log and its reader.
struct SandboxLogs::OpenLog {
  EntryPtr entry;
  UniqueFd file;
  std::uint64_t at = 0;
  std::uint64_t end = 0;                          // of one that is not followed
  std::shared_ptr<FileWatch::Follower> follower;  // of one that is
};

net::awaitable<void> SandboxLogs::bound() {
  while (co_await sleep_for(kLogInterval)) {
    const std::vector<std::string> ids = context_.table.living();
    co_await context_.pool.run([&] {
      for (const std::string& id : ids) {
        // A sandbox may be removed at any moment: a file that cannot be opened is gone.
        for (const char* name : {kLog, "execd.log"}) {
          (void)free_all_but_tail(context_.config().run_file(id, name), kLogBytes);
        }
      }
    });
  }
}

net::awaitable<Result<std::string>> SandboxLogs::tail(std::string id, std::size_t limit, bool times) {
  auto found = context_.table.find(id);
  if (!found) co_return Failure(found.error());
  const std::string path = context_.config().run_file(id, kLog);
  co_return co_await context_.pool.run([&]() -> Result<std::string> {
    auto text = read_tail(path, limit);
    if (!text || times) return text;
    // A line that was cut at its front may have lost its stamp: only whole ones are shown without.
    if (text->size() >= limit && !begins_with_log_stamp(*text)) text->erase(0, text->find('\n') + 1);
    return without_log_stamps(*text);
  });
}

net::awaitable<Result<SandboxLogs::Producer>> SandboxLogs::open(std::string id, LogsFrom from, bool follow) {
  auto found = context_.table.find(id);
  if (!found) co_return Failure(found.error());
  auto log = std::make_shared<OpenLog>();
  log->entry = *found;
  const std::string path = context_.config().run_file(id, kLog);
  auto opened = co_await context_.pool.run([&]() -> Result<void> {
    auto file = open_foreign_file(path, O_RDONLY);
    if (!file) return Failure(file.error());
    struct stat info{};
    if (::fstat(file->get(), &info) < 0) return sys::from_errno("stat " + path, errno);
    const auto start = find_log_start(file->get(), from);
    if (!start) return Failure(start.error());
    log->file = std::move(*file);
    log->at = *start;
    log->end = static_cast<std::uint64_t>(info.st_size);
    return {};
  });
  if (!opened) co_return with_context("log of sandbox " + id, opened.error());
  if (follow) {
    auto follower = watch_.follow(log->file.get(), id);
    if (!follower) co_return Failure(follower.error());
    log->follower = std::move(*follower);
  }
  co_return Producer([this, log](http::BodyWriter& out) { return send(log, out); });
}

net::awaitable<Result<void>> SandboxLogs::send(std::shared_ptr<OpenLog> log, http::BodyWriter& out) {
  const std::string id = log->entry->id();
  if (auto begun = co_await out.flush(); !begun) co_return begun;
  for (bool in_line = false;;) {
    // Both before the file is read: later output is seen in the next round.
    const std::uint64_t seen = log->follower ? log->follower->changes() : 0;
    const bool gone = !context_.table.holds(*log->entry) || log->entry->removing;
    const bool over = !log->follower || log->entry->record.status.state == State::Exited;
    if (gone) co_return fail(Code::NotFound, "sandbox " + id + " was removed");
    if (log->follower && log->follower->closed()) co_return fail(Code::Unavailable, "the daemon is ending");
    if (!log->follower && log->at >= log->end) co_return Result<void>();
    const std::size_t limit =
        log->follower ? kChunk : static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, log->end - log->at));
    auto chunk = co_await context_.pool.run([&] { return read_log(log->file.get(), log->at, limit); });
    if (!chunk) co_return Failure(chunk.error());
    log->at = chunk->next;
    if (chunk->gone > 0) {
      if (auto sent = co_await out.write(note_of(chunk->gone, in_line, context_.clock())); !sent) co_return sent;
      in_line = false;
    }
    if (!chunk->bytes.empty()) {
      if (auto sent = co_await out.write(chunk->bytes); !sent) co_return sent;
      in_line = chunk->bytes.back() != '\n';
      continue;
    }
    if (over) co_return Result<void>();
    const auto first = co_await (log->follower->changed_since(seen) || out.peer_closed());
    if (first.index() == 1) co_return Result<void>();
  }
}

}  // namespace osb::sandboxd
