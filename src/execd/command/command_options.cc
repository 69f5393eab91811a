#include "execd/command/command_options.h"

#include "base/duration.h"
#include "base/parse_number.h"

namespace osb::execd {
namespace {

template <typename T>
Result<void> read_number(const Environment& env, std::string_view name, T min, T& into) {
  const auto it = env.find(name);
  if (it == env.end() || it->second.empty()) return {};
  const auto value = parse_number<T>(it->second);
  if (!value || *value < min) {
    return fail(Code::InvalidRequest, std::string(name) + ": expected a number of at least " + std::to_string(min));
  }
  into = *value;
  return {};
}

}  // namespace

Result<CommandOptions> CommandOptions::from_environment(const Environment& env) {
  CommandOptions options;
  if (const auto it = env.find("TMPDIR"); it != env.end() && !it->second.empty()) options.temp_directory = it->second;
  if (const auto it = env.find("EXECD_COMMAND_RETENTION"); it != env.end() && !it->second.empty()) {
    const auto retention = parse_duration(it->second);
    if (!retention) return with_context("EXECD_COMMAND_RETENTION", retention.error());
    if (retention->count() < 0) return fail(Code::InvalidRequest, "EXECD_COMMAND_RETENTION: must not be negative");
    options.retention = *retention;
  }
  for (const auto& read : {
           read_number<std::size_t>(env, "EXECD_COMMAND_RING_BYTES", 4096, options.ring_bytes),
           read_number<std::uint64_t>(env, "EXECD_COMMAND_SPILL_BYTES", 0, options.spill_bytes),
           read_number<std::uint64_t>(env, "EXECD_COMMAND_LOG_BYTES", 4096, options.log_bytes),
           read_number<std::size_t>(env, "EXECD_COMMAND_FINISHED", 1, options.finished),
       }) {
    if (!read) return Failure(read.error());
  }
  return options;
}

}  // namespace osb::execd
