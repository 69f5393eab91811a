#include "sandboxd/sandbox/check_request.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <boost/json/serialize.hpp>

#include "base/parse_number.h"
#include "base/text.h"
#include "image/manifest.h"
#include "policy/changes.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint64_t kLeastShm = 4096;  // a page

const std::map<std::string, std::uint64_t, std::less<>> kLeastUlimits = {
    {"nofile", 64},
    {"as", std::uint64_t{128} << 20},
    {"data", std::uint64_t{16} << 20},
    {"stack", std::uint64_t{128} << 10},
};

// The kernel's limit for every process; not even root gets more.
std::uint64_t most_open_files() {
  const auto text = sys::read_text("/proc/sys/fs/nr_open");
  const auto most =
      text ? parse_number<std::uint64_t>(std::string_view(*text).substr(0, text->find('\n'))) : std::nullopt;
  return most.value_or(std::uint64_t{1} << 20);
}

bool in_hostnames(char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

Result<void> check_platform(const std::string& text) {
  if (text.empty()) return {};
  const auto wanted = image::parse_platform(text);
  if (!wanted) return with_context("/platform", wanted.error());
  const image::Platform here = image::host_platform();
  if (wanted->os == here.os && wanted->architecture == here.architecture) return {};
  return fail(Code::Unsupported,
              "/platform: '" + text + "' does not run here, this host is " + here.os + "/" + here.architecture);
}

}  // namespace

Result<void> check_request(const api::native::CreateSandbox& spec) {
  // Refused until it is enforced: ignoring it would leave the sandbox's network open.
  if (!std::ranges::all_of(spec.hostname, in_hostnames)) {
    return fail(Code::InvalidRequest, "/hostname: expected letters, digits, '-', '_' and '.'");
  }
  if (spec.limits.shm_bytes && *spec.limits.shm_bytes < kLeastShm) {
    return fail(Code::InvalidRequest, "/limits/shm_bytes: at least " + std::to_string(kLeastShm) + " are needed");
  }
  for (const auto& [name, value] : spec.ulimits) {
    const auto least = kLeastUlimits.find(name);
    if (least != kLeastUlimits.end() && value < least->second) {
      return fail(Code::InvalidRequest,
                  "/ulimits/" + name + ": at least " + std::to_string(least->second) + " are needed");
    }
    if (name == "core" && value > 1) {
      return fail(Code::InvalidRequest, "/ulimits/core: sandboxes write no core files; expected 0");
    }
    if (name == "nofile" && value > most_open_files()) {
      return fail(Code::InvalidRequest,
                  "/ulimits/nofile: this host allows " + std::to_string(most_open_files()) + " (fs.nr_open)");
    }
  }
  return check_platform(spec.platform);
}

Result<std::optional<policy::Policy>> network_policy_of(const api::native::CreateSandbox& spec) {
  if (!spec.network_policy && spec.credential_proxy)
    return fail(Code::InvalidRequest, "/credentialProxy: needs a networkPolicy");
  if (!spec.network_policy) return std::nullopt;
  if (spec.network == api::native::NetworkMode::Host) {
    return fail(Code::InvalidRequest,
                "/networkPolicy: a sandbox in the host's network cannot have one; use network mode bridge");
  }
  if (spec.network == api::native::NetworkMode::None) {
    return fail(Code::InvalidRequest,
                "/networkPolicy: a sandbox without a network has nothing to restrict; use network mode bridge");
  }
  auto policy = policy::replace_policy(boost::json::serialize(api::to_json(*spec.network_policy)));
  if (policy) return std::optional(std::move(policy->policy));
  Error error = policy.error();
  error.message = (error.message.starts_with('/') ? "/networkPolicy" : "/networkPolicy: ") + error.message;
  return Failure(std::move(error));
}

}  // namespace osb::sandboxd
