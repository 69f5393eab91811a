#include "sandboxd/sandbox/exit_reason.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "api/json.h"
#include "base/out_of_memory.h"
#include "sandboxd/sandbox/file_tail.h"

namespace osb::sandboxd {

namespace {

constexpr std::size_t kMostWhy = 1000;

std::optional<boost::json::value> read_document(const std::string& path) {
  const auto file = open_foreign_file(path, O_RDONLY);
  if (!file) return std::nullopt;
  char text[4096];
  const ssize_t size = ::read(file->get(), text, sizeof text);
  if (size <= 0) return std::nullopt;
  auto value = api::parse_json({text, static_cast<std::size_t>(size)});
  if (!value) return std::nullopt;
  return std::move(*value);
}

}  // namespace

NotStarted read_not_started(const std::string& path) {
  const auto value = read_document(path);
  if (!value) return {};
  api::ObjectReader r(*value, {});
  NotStarted out;
  out.why = r.optional_string("error").value_or("").substr(0, kMostWhy);
  std::ranges::replace_if(out.why, [](char c) { return c < ' ' || c > '~'; }, '?');
  out.hook_failed = r.optional_bool("hook_failed").value_or(false) && !out.why.empty();
  return r.failed() ? NotStarted() : out;
}

std::optional<sys::ExitStatus> read_exit_record(const std::string& path) {
  const auto value = read_document(path);
  if (!value) return std::nullopt;
  api::ObjectReader r(*value, {});
  const auto code = r.optional_int64("code", -1, 255);
  const auto signal = r.optional_int64("signal", 0, 127);
  if (r.failed() || (!code && !signal)) return std::nullopt;
  return sys::ExitStatus{static_cast<int>(code.value_or(0)), static_cast<int>(signal.value_or(0))};
}

api::native::Exit describe_exit(std::optional<sys::ExitStatus> entrypoint, std::optional<sys::ExitStatus> process,
                                bool oom_killed) {
  api::native::Exit out;
  if (const auto status = entrypoint ? entrypoint : process) {
    out.signal = status->signal;
    out.code = status->signal != 0 ? 128 + status->signal : status->code;
  } else {
    out.signal = SIGKILL;
    out.code = 128 + SIGKILL;
  }
  // A shell reports its killed child as 137.
  out.out_of_memory = oom_killed && out.code == 128 + SIGKILL;
  return out;
}

std::string exit_reason(const api::native::Exit& exit) {
  if (exit.out_of_memory) return "OUT_OF_MEMORY";
  return exit.signal != 0 ? "SIGNALLED" : "EXITED";
}

std::string exit_message(const api::native::Exit& exit, std::optional<std::uint64_t> memory_limit, bool limit_reached) {
  if (exit.out_of_memory) return out_of_memory_message(memory_limit, limit_reached);
  if (exit.signal != 0) return std::string("ended by signal ") + ::strsignal(exit.signal);
  return "entrypoint ended with exit code " + std::to_string(exit.code);
}

}  // namespace osb::sandboxd
