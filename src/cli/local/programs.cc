#include "cli/local/programs.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

std::string search_path() {
  const char* path = std::getenv("PATH");
  return std::string(path != nullptr ? path : "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin";
}

}  // namespace

std::filesystem::path program_directory() {
  std::error_code failed;
  std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  if (::access((own / "sandboxd").c_str(), X_OK) == 0) return own;
  if (const auto found = sys::find_program("sandboxd", search_path())) {
    return std::filesystem::path(*found).parent_path();
  }
  return own;
}

Result<ProgramOutput> run_program_for_output(const std::filesystem::path& program,
                                             const std::vector<std::string>& arguments) {
  auto pipe = sys::make_pipe();
  if (!pipe) return Failure(pipe.error());
  sys::SpawnPlan plan;
  plan.program = program;
  plan.argv = {program};
  plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
  plan.env = {"PATH=" + search_path()};
  plan.fds = {{1, pipe->write.get()}};
  auto child = sys::spawn(plan);
  if (!child) return Failure(child.error());
  pipe->write.reset();
  ProgramOutput out;
  std::array<char, 16 * 1024> buffer;
  for (;;) {
    const ssize_t got = ::read(pipe->read.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    out.text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  (void)sys::wait_ended(child->pidfd.get(), std::chrono::seconds(10));
  auto status = sys::reap(*child);
  if (!status) return Failure(status.error());
  out.code = status->signal != 0 ? 128 + status->signal : status->code;
  return out;
}

Result<void> become_root() {
  if (::geteuid() == 0) return {};
  constexpr std::string_view kWhy = "this needs root: sandboxes are made of namespaces, mounts and cgroups";
  const auto sudo = sys::find_program("sudo", search_path());
  if (!sudo) return fail(Code::Forbidden, std::string(kWhy) + "; run it as root");
  if (::isatty(STDIN_FILENO) == 0) return fail(Code::Forbidden, std::string(kWhy) + "; run it with sudo");
  auto line = sys::read_text("/proc/self/cmdline");
  if (!line) return Failure(line.error());
  // Keys go by the environment: everyone can read the words of a command.
  std::vector<std::string> words{*sudo};
  for (const char* name : {"OPEN_SANDBOX_API_KEY", "OPENSANDBOX_SERVER_API_KEY"}) {
    if (std::getenv(name) != nullptr) words.push_back(std::string("--preserve-env=") + name);
  }
  words.emplace_back("env");
  for (const char* name : {"HOME", "TERM", "OPEN_SANDBOX_DOMAIN", "OPEN_SANDBOX_PROFILE", "OPEN_SANDBOX_PROTOCOL"}) {
    if (const char* value = std::getenv(name)) words.push_back(std::string(name) + "=" + value);
  }
  std::error_code failed;
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", failed));
  for (std::size_t from = line->find('\0'); from != std::string::npos && from + 1 < line->size();) {
    const std::size_t end = line->find('\0', from + 1);
    words.push_back(line->substr(from + 1, end - from - 1));
    from = end;
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(sudo->c_str(), argv.data());
  return sys::from_errno("run " + *sudo, errno);
}

}  // namespace osb::cli
