// The rules of POST /sandboxes beyond its schema: they refuse well-formed requests that cannot be served.

#include <string_view>

#include "api/egress_environment.h"
#include "api/isolation_extension.h"
#include "api/lifecycle_create.h"
#include "api/lifecycle_error.h"
#include "api/lifecycle_metadata.h"
#include "api/resource_limits.h"
#include "api/verify_sni_extension.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/quantity.h"
#include "base/text.h"

namespace osb::api {
namespace {

using std::chrono::seconds;

constexpr seconds kMinAccessRenew{300};
constexpr seconds kMaxAccessRenew{86400};
// The last second that has an RFC 3339 form.
constexpr std::chrono::sys_seconds kEndOfTime =
    std::chrono::sys_days(std::chrono::year(9999) / 12 / 31) + std::chrono::hours(24) - seconds(1);

Result<void> check_entrypoint(const CreateSandbox& create, const CreateRules& rules) {
  if (create.entrypoint.empty() && !create.pool_ref().empty()) return {};
  if (!create.entrypoint.empty() && !is_blank(create.entrypoint.front())) return {};
  return refuse(Code::InvalidRequest, backend_reason(rules.backend, "INVALID_ENTRYPOINT"),
                "/entrypoint: the first word is the program and must not be blank");
}

Result<void> check_platform(const CreateSandbox& create, const CreateRules& rules) {
  if (!create.platform) return {};
  const auto& [os, arch] = *create.platform;
  if (os != "linux" && os != "windows")
    return invalid_parameter("/platform/os", in_quotes(os) + " is not linux or windows");
  if (arch != "amd64" && arch != "arm64") {
    return invalid_parameter("/platform/arch", in_quotes(arch) + " is not amd64 or arm64");
  }
  if (os == "windows" && !rules.no_windows.empty()) return invalid_parameter("/platform/os", rules.no_windows);
  return {};
}

Result<void> check_timeout(const CreateSandbox& create, const CreateRules& rules) {
  if (!create.timeout) return {};
  if (rules.max_timeout && *create.timeout > *rules.max_timeout) {
    return invalid_parameter("/timeout", "at most " + std::to_string(rules.max_timeout->count()) +
                                             " s are allowed ([server] max_sandbox_timeout_seconds)");
  }
  if (*create.timeout > kEndOfTime - std::chrono::floor<seconds>(rules.now)) {
    return invalid_parameter("/timeout", "the end would lie behind the year 9999");
  }
  return {};
}

Result<void> check_quantity(std::string_view name, const std::string& text, const CreateRules& rules) {
  if (rules.kubernetes_quantities) {
    if (name == "gpu" && text == "all") return fail(Code::InvalidRequest, "a number of GPUs is needed");
    const auto amount = name == "cpu" ? parse_quantity_millis(name, text) : parse_quantity(name, text);
    if (!amount) return Failure(amount.error());
  } else if (name == "memory") {
    if (const auto bytes = parse_docker_memory(text); !bytes) return Failure(bytes.error());
  } else if (name == "cpu") {
    if (const auto cpus = parse_docker_cpu(text); !cpus) return Failure(cpus.error());
  } else if (name == "gpu") {
    if (const auto gpus = parse_docker_gpu(text); !gpus) return Failure(gpus.error());
  }
  return {};
}

// A string that no grammar knows would silently mean "no limit". Other keys are Kubernetes' business.
Result<void> check_resources(const std::optional<StringMap>& resources, std::string_view field,
                             const CreateRules& rules) {
  if (!resources) return {};
  for (const auto& [name, text] : *resources) {
    if (name != "cpu" && name != "memory" && name != "gpu") continue;
    if (auto ok = check_quantity(name, text, rules); !ok) {
      return invalid_parameter(join_pointer(field, name), ok.error().message);
    }
  }
  return {};
}

Result<void> check_environment(const CreateSandbox& create) {
  for (const auto& [name, value] : create.env) {
    if (is_reserved_egress_name(name)) {
      return invalid_parameter("/env", "the name " + in_quotes(name) + " is reserved for the server");
    }
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
      return invalid_parameter("/env", "the name " + in_quotes(name) + " is empty or contains '=' or a NUL byte");
    }
    if (value.find('\0') != std::string::npos) {
      return invalid_parameter("/env", "the value of " + in_quotes(name) + " contains a NUL byte");
    }
  }
  return {};
}

Result<void> check_verify_sni(const CreateSandbox& create, const CreateRules& rules) {
  const auto found = create.extensions.find(std::string(kVerifySniExtension));
  if (found == create.extensions.end()) return {};
  const std::string place = join_pointer("/extensions", kVerifySniExtension);
  if (found->second != "true" && found->second != "false")
    return invalid_parameter(place, "expected \"true\" or \"false\"");
  if (found->second == "false") return {};
  if (!create.network_policy) return invalid_parameter(place, "needs a networkPolicy, which names the hosts");
  return rules.no_credential_proxy.empty() ? Result<void>() : invalid_parameter(place, rules.no_credential_proxy);
}

Result<void> check_network_policy(const CreateSandbox& create, const CreateRules& rules) {
  if (auto ok = check_verify_sni(create, rules); !ok) return ok;
  if (!create.network_policy) return {};
  if (!rules.no_network_policy.empty()) return invalid_parameter("/networkPolicy", rules.no_network_policy);
  if (create.credential_proxy && !rules.no_credential_proxy.empty()) {
    return invalid_parameter("/credentialProxy", rules.no_credential_proxy);
  }
  const auto truthy = [&create](std::string_view name) {
    const auto found = create.env.find(std::string(name));
    return found != create.env.end() && is_egress_truthy(found->second);
  };
  const bool intercept = truthy(kInterceptVariable);
  if (intercept && !rules.no_credential_proxy.empty()) {
    return invalid_parameter(join_pointer("/env", kInterceptVariable), rules.no_credential_proxy);
  }
  if ((intercept || create.credential_proxy) && truthy(kInsecureVariable)) {
    return invalid_parameter(
        join_pointer("/env", kInsecureVariable),
        "the certificates of servers are always verified where connections are opened; leave it out");
  }
  return {};
}

}  // namespace

Result<std::optional<seconds>> access_renew_seconds(const CreateSandbox& create) {
  const auto& policy = create.lifecycle.renew;
  const auto found = create.extensions.find(std::string(kAccessRenewKey));
  if (found == create.extensions.end()) return policy;
  std::string_view text = found->second;
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto number = parse_number<std::int64_t>(text);
  if (!number || seconds(*number) < kMinAccessRenew || seconds(*number) > kMaxAccessRenew) {
    return invalid_parameter(join_pointer("/extensions", kAccessRenewKey), "expected an integer from 300 to 86400");
  }
  if (policy && *policy != seconds(*number)) {
    return invalid_parameter("/lifecycle/renewalPolicy/extendSeconds",
                             "differs from extensions." + std::string(kAccessRenewKey) + "; give one of the two");
  }
  return seconds(*number);
}

Result<void> check_create_source(const CreateSandbox& create, const CreateRules& rules) {
  if (auto renew = access_renew_seconds(create); !renew) return Failure(renew.error());
  if (const auto isolation = create.extensions.find(std::string(kIsolationExtension));
      isolation != create.extensions.end() && isolation->second != "enable") {
    return invalid_parameter(join_pointer("/extensions", kIsolationExtension), "expected \"enable\"");
  }
  if (create.pool_ref().empty()) return {};
  if (!rules.pools) {
    return refuse(Code::InvalidRequest, reason::kUnsupportedPoolRef,
                  "/extensions/poolRef: pools need the kubernetes backend");
  }
  if (create.platform) return invalid_parameter("/platform", "cannot be combined with extensions.poolRef");
  if (!create.volumes.empty()) return invalid_parameter("/volumes", "cannot be combined with extensions.poolRef");
  if (create.network_policy) {
    return invalid_parameter("/networkPolicy", "cannot be combined with extensions.poolRef");
  }
  if (create.credential_proxy) {
    return invalid_parameter("/credentialProxy", "cannot be combined with extensions.poolRef");
  }
  return {};
}

Result<void> check_create(const CreateSandbox& create, const CreateRules& rules) {
  if (auto ok = check_entrypoint(create, rules); !ok) return ok;
  if (create.metadata) {
    if (auto ok = check_metadata(*create.metadata); !ok) return ok;
  }
  if (auto ok = check_platform(create, rules); !ok) return ok;
  if (auto ok = check_timeout(create, rules); !ok) return ok;
  if (rules.kubernetes_quantities) {
    if (auto ok = check_resources(create.resource_limits, "/resourceLimits", rules); !ok) return ok;
  } else if (auto limits = read_resource_limits(create.resource_limits); !limits) {
    return Failure(limits.error());
  }
  if (auto ok = check_resources(create.resource_requests, "/resourceRequests", rules); !ok) return ok;
  if (auto ok = check_environment(create); !ok) return ok;
  if (auto ok = check_lifecycle(create.lifecycle, rules.now); !ok) return ok;
  if (create.secure_access && !rules.no_secure_access.empty()) {
    return invalid_parameter("/secureAccess", rules.no_secure_access);
  }
  if (auto ok = check_network_policy(create, rules); !ok) return ok;
  return check_volumes(create.volumes, rules.allowed_host_paths);
}

}  // namespace osb::api
