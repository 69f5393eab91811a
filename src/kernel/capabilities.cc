#include "kernel/capabilities.h"

#include <algorithm>
#include <charconv>
#include <linux/capability.h>

#include <fmt/format.h>

#include "base/text.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

constexpr std::string_view kPrefix = "CAP_";
// By number.
constexpr std::string_view kNames[] = {"CHOWN",
                                       "DAC_OVERRIDE",
                                       "DAC_READ_SEARCH",
                                       "FOWNER",
                                       "FSETID",
                                       "KILL",
                                       "SETGID",
                                       "SETUID",
                                       "SETPCAP",
                                       "LINUX_IMMUTABLE",
                                       "NET_BIND_SERVICE",
                                       "NET_BROADCAST",
                                       "NET_ADMIN",
                                       "NET_RAW",
                                       "IPC_LOCK",
                                       "IPC_OWNER",
                                       "SYS_MODULE",
                                       "SYS_RAWIO",
                                       "SYS_CHROOT",
                                       "SYS_PTRACE",
                                       "SYS_PACCT",
                                       "SYS_ADMIN",
                                       "SYS_BOOT",
                                       "SYS_NICE",
                                       "SYS_RESOURCE",
                                       "SYS_TIME",
                                       "SYS_TTY_CONFIG",
                                       "MKNOD",
                                       "LEASE",
                                       "AUDIT_WRITE",
                                       "AUDIT_CONTROL",
                                       "SETFCAP",
                                       "MAC_OVERRIDE",
                                       "MAC_ADMIN",
                                       "SYSLOG",
                                       "WAKE_ALARM",
                                       "BLOCK_SUSPEND",
                                       "AUDIT_READ",
                                       "PERFMON",
                                       "BPF",
                                       "CHECKPOINT_RESTORE"};
static_assert(std::size(kNames) == CAP_LAST_CAP + 1);

}  // namespace

std::optional<int> capability_number(std::string_view name) {
  const std::string wanted = upper(name);
  std::string_view bare = wanted;
  if (bare.starts_with(kPrefix)) bare.remove_prefix(kPrefix.size());
  const auto found = std::ranges::find(kNames, bare);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<int>(found - std::begin(kNames));
}

std::string capability_name(int number) {
  if (number >= 0 && static_cast<std::size_t>(number) < std::size(kNames)) {
    return fmt::format("{}{}", kPrefix, kNames[number]);
  }
  return fmt::format("{}{}", kPrefix, number);
}

std::vector<std::string> capability_names(CapabilitySet set) {
  std::vector<std::string> out;
  for (int number = 0; number < 64; ++number) {
    if (set >> number & 1) out.push_back(capability_name(number));
  }
  return out;
}

CapabilitySet all_capabilities() {
  static const CapabilitySet all = [] {
    int last = CAP_LAST_CAP;
    if (const auto text = sys::read_text("/proc/sys/kernel/cap_last_cap")) {
      std::from_chars(text->data(), text->data() + text->size(), last);
    }
    return last >= 63 ? ~CapabilitySet{0} : (CapabilitySet{1} << (last + 1)) - 1;
  }();
  return all;
}

Result<ProcessCapabilities> capabilities_of(int pid) {
  const auto text = sys::read_text(fmt::format("/proc/{}/status", pid));
  if (!text) return Failure(text.error());
  ProcessCapabilities out;
  struct {
    std::string_view key;
    CapabilitySet& value;
  } const rows[] = {{"CapEff:\t", out.effective},
                    {"CapPrm:\t", out.permitted},
                    {"CapInh:\t", out.inheritable},
                    {"CapBnd:\t", out.bounding},
                    {"CapAmb:\t", out.ambient}};
  sys::for_each_line(*text, [&](std::string_view line) {
    for (const auto& row : rows) {
      if (!line.starts_with(row.key)) continue;
      std::from_chars(line.data() + row.key.size(), line.data() + line.size(), row.value, 16);
    }
  });
  return out;
}

}  // namespace osb::kernel
