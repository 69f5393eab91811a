#include "credentials/command_output.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include "async/descriptor.h"
#include "credentials/provider_answer.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb::credentials {
namespace {

// Kills the command's process group and frees its pid, whatever way it ends.
class RunningCommand {
 public:
  explicit RunningCommand(sys::Child child) : child_(std::move(child)) {}
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;
  ~RunningCommand() { (void)end(); }

  int pidfd() const { return child_.pidfd.get(); }
  Result<sys::ExitStatus> end() {
    if (ended_) return fail(Code::Internal, "it has ended already");
    ended_ = true;
    ::kill(-child_.pid, SIGKILL);
    return sys::reap(child_);
  }

 private:
  sys::Child child_;
  bool ended_ = false;
};

std::vector<std::string> environment() {
  std::vector<std::string> out;
  for (const char* name : {"PATH", "HOME", "LANG"}) {
    if (const char* value = ::getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

net::awaitable<Result<vault::SecretText>> read_to_end(Descriptor& output) {
  vault::SecretText out;
  std::array<char, 4096> buffer;
  while (true) {
    const auto got = co_await output.read_some(buffer);
    if (!got) co_return Failure(got.error());
    if (*got == 0) break;
    out.append({buffer.data(), *got});
    if (out.size() > kMostBytes + 2) co_return fail(Code::Unavailable, "it prints more than 64 KiB");
  }
  vault::wipe(buffer.data(), buffer.size());
  co_return out;
}

}  // namespace

net::awaitable<Result<vault::SecretText>> command_output(std::vector<std::string> command) {
  const auto unavailable = [&](std::string_view why) {
    return fail(Code::Unavailable, "command " + command.front() + ": " + std::string(why));
  };
  auto pipe = sys::make_pipe();
  if (!pipe) co_return unavailable(pipe.error().message);
  sys::SpawnPlan plan;
  plan.program = command.front();
  plan.argv = command;
  plan.env = environment();
  plan.cwd = "/";
  plan.fds = {{1, pipe->write.get()}};
  auto child = sys::spawn(plan);
  if (!child) co_return fail(Code::Unavailable, child.error().message);
  RunningCommand running(std::move(*child));
  pipe->write.reset();
  const auto executor = co_await net::this_coro::executor;
  auto output = Descriptor::open(executor, std::move(pipe->read));
  if (!output) co_return unavailable(output.error().message);
  auto text = co_await read_to_end(*output);
  if (!text) co_return unavailable(text.error().message);
  auto process = Descriptor::open(executor, UniqueFd(::fcntl(running.pidfd(), F_DUPFD_CLOEXEC, 0)));
  if (!process) co_return unavailable(process.error().message);
  if (auto ended = co_await process->wait_readable(); !ended) co_return unavailable(ended.error().message);
  const auto status = running.end();
  if (!status) co_return unavailable(status.error().message);
  if (status->signal != 0) co_return unavailable("ended by signal " + std::to_string(status->signal));
  if (status->code != 0) co_return unavailable("exit code " + std::to_string(status->code));
  auto value = parse_value(text->view());
  if (!value) co_return unavailable(value.error().message);
  co_return value;
}

}  // namespace osb::credentials
