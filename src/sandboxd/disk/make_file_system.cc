#include "sandboxd/disk/make_file_system.h"

#include <filesystem>
#include <unistd.h>

#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr const char* kPath = "/usr/sbin:/sbin:/usr/bin:/bin";

}  // namespace

Result<std::string> find_mkfs(const std::string& program, const std::string& package) {
  if (auto found = sys::find_program(program, kPath)) return *found;
  return fail(Code::Unsupported, program + " is missing: install " + package);
}

Result<void> make_file_system(const std::string& program, std::vector<std::string> argv) {
  const std::string name = std::filesystem::path(program).filename();
  auto output = sys::make_pipe();
  if (!output) return Failure(output.error());
  argv.insert(argv.begin(), name);
  sys::SpawnPlan plan;
  plan.program = program;
  plan.argv = std::move(argv);
  plan.env = {std::string("PATH=") + kPath};
  plan.fds = {{1, output->write.get()}, {2, output->write.get()}};
  const auto child = sys::spawn(plan);
  if (!child) return Failure(child.error());
  output->write.reset();
  std::string said;
  char piece[1024];
  for (ssize_t got; (got = ::read(output->read.get(), piece, sizeof piece)) > 0;) {
    if (said.size() < sizeof piece) said.append(piece, static_cast<std::size_t>(got));
  }
  const auto ended = sys::reap(*child);
  if (!ended) return Failure(ended.error());
  if (!ended->ok()) return fail(Code::Internal, name + " failed: " + said);
  return {};
}

}  // namespace osb::sandboxd
