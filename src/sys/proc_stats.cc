#include "sys/proc_stats.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <memory>
#include <string_view>
#include <vector>

#include "sys/text_file.h"

namespace osb::sys {
namespace {

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  constexpr std::string_view kSpace = " \t";
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return out;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kSpace), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The value after `key` in a line such as "TCP: inuse 5 orphan 0".
std::uint64_t value_after(const std::vector<std::string_view>& line, std::string_view key) {
  const auto it = std::ranges::find(line, key);
  return it == line.end() || it + 1 == line.end() ? 0 : number(*(it + 1));
}

}  // namespace

std::optional<HostMemory> host_memory(const std::string& proc) {
  const auto text = read_text(proc + "/meminfo");
  if (!text) return std::nullopt;
  std::uint64_t total = 0, unused = 0;
  for_each_line(*text, [&](std::string_view line) {
    const auto w = words(line);
    if (w.size() < 2) return;
    if (w[0] == "MemTotal:") total = number(w[1]);
    for (const std::string_view key : {"MemFree:", "Buffers:", "Cached:", "SReclaimable:"}) {
      if (w[0] == key) unused += number(w[1]);
    }
  });
  if (total == 0) return std::nullopt;
  return HostMemory{total * 1024, (total - std::min(unused, total)) * 1024};
}

std::optional<HostCpuTime> host_cpu_time(const std::string& proc) {
  const auto text = read_text(proc + "/stat");
  if (!text) return std::nullopt;
  // "cpu user nice system idle iowait irq softirq steal guest guest_nice"; guest time is in user time already.
  const auto w = words(std::string_view(*text).substr(0, text->find('\n')));
  if (w.size() < 5 || w[0] != "cpu") return std::nullopt;
  HostCpuTime time;
  for (std::size_t i = 1; i < std::min<std::size_t>(w.size(), 9); ++i) {
    time.total += number(w[i]);
    if (i != 4 && i != 5) time.busy += number(w[i]);
  }
  return time;
}

std::uint64_t process_count(const std::string& proc) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(proc.c_str()), &::closedir);
  if (!dir) return 0;
  std::uint64_t count = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    count += std::ranges::all_of(std::string_view(entry->d_name), [](char c) { return c >= '0' && c <= '9'; });
  }
  return count;
}

NetworkBytes network_bytes(const std::string& proc) {
  NetworkBytes bytes;
  const auto text = read_text(proc + "/net/dev");
  if (!text) return bytes;
  for_each_line(*text, [&](std::string_view line) {
    const std::size_t colon = line.rfind(':');  // names of aliases hold one too
    if (colon == std::string_view::npos) return;
    const auto name = words(line.substr(0, colon));
    const auto w = words(line.substr(colon + 1));  // 8 fields of reception, then 8 of transmission
    if (name.size() != 1 || name[0] == "lo" || w.size() < 9) return;
    bytes.received += number(w[0]);
    bytes.sent += number(w[8]);
  });
  return bytes;
}

SocketCounts socket_counts(const std::string& proc) {
  SocketCounts counts;
  for (const char* file : {"/net/sockstat", "/net/sockstat6"}) {
    const auto text = read_text(proc + file);
    if (!text) continue;
    for_each_line(*text, [&](std::string_view line) {
      const auto w = words(line);
      if (w.empty()) return;
      if (w[0] == "TCP:" || w[0] == "TCP6:") counts.tcp += value_after(w, "inuse");
      if (w[0] == "UDP:" || w[0] == "UDP6:") counts.udp += value_after(w, "inuse");
    });
  }
  return counts;
}

}  // namespace osb::sys
