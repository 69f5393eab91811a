#include "api/resource_limits.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "api/lifecycle_error.h"
#include "base/edit_distance.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/quantity.h"

namespace osb::api {
namespace {

constexpr std::uint64_t kFewestPids = 8;         // execd needs that many
constexpr std::uint64_t kMostPids = 4 << 20;     // pid_max of 64-bit kernels
constexpr std::uint64_t kMostIops = 0xffffffff;  // the kernel counts them in 32 bits
constexpr std::size_t kLongestName = 64;         // longer ones have no near name

Result<std::uint64_t> read_count(const std::string& text, std::uint64_t least, std::uint64_t most) {
  const auto number = parse_number<std::uint64_t>(text);
  if (number && *number >= least && *number <= most) return *number;
  return fail(Code::InvalidRequest,
              in_quotes(text) + " is not a number from " + std::to_string(least) + " to " + std::to_string(most));
}

Result<std::uint64_t> read_bytes(std::string_view name, const std::string& text) {
  auto bytes = parse_docker_memory(text, name);
  if (bytes && *bytes == 0) return fail(Code::InvalidRequest, in_quotes(text) + " must be above zero");
  return bytes;
}

template <typename T>
Result<void> keep(Result<T> amount, auto& field) {
  if (!amount) return Failure(amount.error());
  field = *amount;
  return {};
}

Result<void> read_memory(std::string_view, const std::string& text, ResourceLimits& out) {
  const auto bytes = parse_docker_memory(text);
  if (!bytes) return Failure(bytes.error());
  if (*bytes != 0) out.memory_bytes = *bytes;
  return {};
}

Result<void> read_disk(std::string_view name, const std::string& text, ResourceLimits& out) {
  const auto before = out.disk_bytes;
  if (auto done = keep(read_bytes(name, text), out.disk_bytes); !done) return done;
  if (!before || before == out.disk_bytes) return {};
  return fail(Code::InvalidRequest, "disk, storage and ephemeral-storage are one limit; their amounts differ");
}

struct KnownLimit {
  std::string_view name;
  Result<void> (*read)(std::string_view name, const std::string& text, ResourceLimits& out);
};

template <auto Field>
Result<void> read_rate(std::string_view name, const std::string& text, ResourceLimits& out) {
  return keep(read_bytes(name, text), out.*Field);
}

template <auto Field, std::uint64_t Least, std::uint64_t Most>
Result<void> read_number(std::string_view, const std::string& text, ResourceLimits& out) {
  return keep(read_count(text, Least, Most), out.*Field);
}

Result<void> read_cpu(std::string_view, const std::string& text, ResourceLimits& out) {
  return keep(parse_docker_cpu(text), out.nano_cpus);
}

Result<void> read_gpu(std::string_view, const std::string& text, ResourceLimits& out) {
  return keep(parse_docker_gpu(text), out.gpus);
}

constexpr std::array<KnownLimit, 13> kKnown{{
    {"cpu", read_cpu},
    {"memory", read_memory},
    {"gpu", read_gpu},
    {"disk", read_disk},
    {"storage", read_disk},
    {"ephemeral-storage", read_disk},
    {"pids", read_number<&ResourceLimits::pids, kFewestPids, kMostPids>},
    {"io-read-bps", read_rate<&ResourceLimits::io_read_bps>},
    {"io-write-bps", read_rate<&ResourceLimits::io_write_bps>},
    {"io-read-iops", read_number<&ResourceLimits::io_read_iops, 1, kMostIops>},
    {"io-write-iops", read_number<&ResourceLimits::io_write_iops, 1, kMostIops>},
    {"network-receive-bps", read_rate<&ResourceLimits::network_receive_bps>},
    {"network-send-bps", read_rate<&ResourceLimits::network_send_bps>},
}};

std::string why_unknown(std::string_view name) {
  std::string out = "there is no such limit; ";
  if (name.size() <= kLongestName) {
    const auto near =
        std::ranges::min_element(kKnown, {}, [&](const KnownLimit& each) { return edit_distance(each.name, name); });
    out += "did you mean " + std::string(near->name) + "? ";
  }
  return out + "Known limits: " + resource_limit_names();
}

}  // namespace

std::string resource_limit_names() {
  std::string all;
  for (const KnownLimit& each : kKnown) all.append(all.empty() ? "" : ", ").append(each.name);
  return all;
}

Result<ResourceLimits> read_resource_limits(const std::optional<StringMap>& wanted) {
  ResourceLimits out;
  if (!wanted) return out;
  for (const auto& [name, text] : *wanted) {
    const auto known = std::ranges::find(kKnown, std::string_view(name), &KnownLimit::name);
    if (known == kKnown.end()) return invalid_parameter("/resourceLimits", in_quotes(name) + ": " + why_unknown(name));
    if (auto read = known->read(name, text, out); !read) {
      return invalid_parameter(join_pointer("/resourceLimits", name), read.error().message);
    }
  }
  return out;
}

}  // namespace osb::api
