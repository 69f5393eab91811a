#include "sys/cgroup_text.h"

#include "base/parse_number.h"
#include "sys/text_file.h"

namespace osb::sys {

std::optional<std::uint64_t> parse_cgroup_number(std::string_view text) {
  return parse_number<std::uint64_t>(text.substr(0, text.find('\n')));
}

std::optional<std::uint64_t> parse_cgroup_key(std::string_view text, std::string_view key) {
  std::optional<std::uint64_t> out;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' ')) {
      out = parse_cgroup_number(line.substr(key.size() + 1));
    }
  });
  return out;
}

std::vector<pid_t> parse_cgroup_pids(std::string_view text) {
  std::vector<pid_t> out;
  for_each_line(text, [&](std::string_view line) {
    if (const auto pid = parse_number<pid_t>(line); pid && *pid > 0) out.push_back(*pid);
  });
  return out;
}

CgroupEvents parse_cgroup_events(std::string_view text) {
  return {parse_cgroup_key(text, "populated") == 1U, parse_cgroup_key(text, "frozen") == 1U};
}

}  // namespace osb::sys
