#include "api/lifecycle_hooks.h"

#include <algorithm>
#include <set>

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "base/cron.h"
#include "base/json_escape.h"
#include "base/text.h"

namespace osb::api {
namespace {

using std::chrono::seconds;

constexpr std::int64_t kMaxPreStart = 10800, kMaxPeriodic = 300;
// The kernel takes 128 KiB for one variable.
constexpr std::size_t kMostText = 64 << 10;
// The contract's bound: activity that is older is not remembered.
constexpr seconds kActivityMemory{1800};

std::vector<std::string> read_command(ObjectReader& r) {
  auto command = r.string_list("command").value_or(std::vector<std::string>());
  if (command.empty() || is_blank(command.front())) {
    r.reject("command", "required; its first word is the program and must not be blank");
  }
  for (const std::string& word : command) {
    if (word.find('\0') != std::string::npos) r.reject("command", "must not contain a NUL byte");
  }
  return command;
}

std::string read_trimmed(ObjectReader& r, std::string_view name) {
  std::string text(trimmed(r.optional_string(name).value_or("")));
  if (text.empty()) r.reject(name, "required and not blank");
  return text;
}

seconds read_timeout(ObjectReader& r, std::int64_t most, seconds otherwise) {
  return seconds(r.optional_int64("timeoutSeconds", 1, most).value_or(otherwise.count()));
}

void read_hooks(ObjectReader& r, Lifecycle& out) {
  r.object("preStart", [&](ObjectReader& hook) {
    hook.refuse_unknown({"command", "timeoutSeconds"});
    PreStartHook& made = out.pre_start.emplace();
    made.command = read_command(hook);
    made.timeout = read_timeout(hook, kMaxPreStart, made.timeout);
  });
  std::set<std::string> names;
  r.array("periodic", [&](ObjectReader& hook) {
    hook.refuse_unknown({"name", "schedule", "command", "timeoutSeconds"});
    PeriodicHook& made = out.periodic.emplace_back();
    made.name = read_trimmed(hook, "name");
    made.schedule = read_trimmed(hook, "schedule");
    made.command = read_command(hook);
    made.timeout = read_timeout(hook, kMaxPeriodic, made.timeout);
    if (!names.insert(made.name).second) hook.reject("name", "another hook has the name " + in_quotes(made.name));
  });
}

void read_probe(ObjectReader& r, IdlePolicy& out) {
  r.object("activeProbe", [&](ObjectReader& probe) {
    probe.refuse_unknown({"port", "path", "timeoutSeconds"});
    ActiveProbe& made = out.probe.emplace();
    made.port = static_cast<std::uint16_t>(probe.required_int64("port", 1, 65535));
    made.path = probe.required_string("path");
    if (!made.path.starts_with('/')) probe.reject("path", "must begin with /");
    const auto in_request = [](char c) { return c > ' ' && c <= '~'; };
    if (!std::ranges::all_of(made.path, in_request)) probe.reject("path", "must not contain blanks or controls");
    made.timeout = read_timeout(probe, 60, made.timeout);
  });
}

void read_policies(ObjectReader& r, Lifecycle& out) {
  r.object("idlePolicy", [&](ObjectReader& policy) {
    policy.refuse_unknown({"idleTimeoutSeconds", "onIdle", "wakeOnAccess", "activeProbe"});
    IdlePolicy& made = out.idle.emplace();
    if (const auto timeout = policy.optional_int64("idleTimeoutSeconds", 30, 86400)) made.timeout = seconds(*timeout);
    const auto on_idle = policy.optional_string("onIdle");
    if (on_idle && *on_idle != "pause") policy.reject("onIdle", in_quotes(*on_idle) + " is not \"pause\"");
    if (on_idle && !made.timeout) policy.reject("onIdle", "only with idleTimeoutSeconds");
    if (!on_idle && made.timeout) policy.reject("onIdle", "required with idleTimeoutSeconds: \"pause\"");
    made.wake_on_access = policy.optional_bool("wakeOnAccess").value_or(true);
    read_probe(policy, made);
  });
  r.object("renewalPolicy", [&](ObjectReader& policy) {
    policy.refuse_unknown({"extendSeconds"});
    out.renew = seconds(policy.required_int64("extendSeconds", 300, 86400));
  });
}

json::array list_of(const std::vector<std::string>& words) { return json::array(words.begin(), words.end()); }

void write_hooks(const Lifecycle& lifecycle, json::object& out) {
  if (lifecycle.pre_start) {
    out["preStart"] = {{"command", list_of(lifecycle.pre_start->command)},
                       {"timeoutSeconds", lifecycle.pre_start->timeout.count()}};
  }
  if (lifecycle.periodic.empty()) return;
  json::array periodic;
  for (const PeriodicHook& hook : lifecycle.periodic) {
    periodic.push_back({{"name", hook.name},
                        {"schedule", hook.schedule},
                        {"command", list_of(hook.command)},
                        {"timeoutSeconds", hook.timeout.count()}});
  }
  out["periodic"] = std::move(periodic);
}

json::object encode_idle(const IdlePolicy& policy) {
  json::object out{{"wakeOnAccess", policy.wake_on_access}};
  if (policy.timeout) {
    out["idleTimeoutSeconds"] = policy.timeout->count();
    out["onIdle"] = "pause";
  }
  if (policy.probe) {
    out["activeProbe"] = {
        {"port", policy.probe->port}, {"path", policy.probe->path}, {"timeoutSeconds", policy.probe->timeout.count()}};
  }
  return out;
}

}  // namespace

Lifecycle read_lifecycle(ObjectReader& create) {
  Lifecycle out;
  create.object("lifecycle", [&](ObjectReader& r) {
    r.refuse_unknown({"preStart", "periodic", "idlePolicy", "renewalPolicy"});
    read_hooks(r, out);
    read_policies(r, out);
  });
  return out;
}

json::object encode_lifecycle(const Lifecycle& lifecycle) {
  json::object out;
  write_hooks(lifecycle, out);
  if (lifecycle.idle) out["idlePolicy"] = encode_idle(*lifecycle.idle);
  if (lifecycle.renew) out["renewalPolicy"] = {{"extendSeconds", lifecycle.renew->count()}};
  return out;
}

Result<void> check_lifecycle(const Lifecycle& lifecycle, std::chrono::system_clock::time_point now) {
  for (std::size_t i = 0; i < lifecycle.periodic.size(); ++i) {
    const std::string field = "/lifecycle/periodic/" + std::to_string(i) + "/schedule";
    const auto schedule = CronSchedule::parse(lifecycle.periodic[i].schedule);
    if (!schedule) return invalid_parameter(field, schedule.error().message);
    // Whether a moment ever comes does not depend on the time zone.
    if (!schedule->next(std::chrono::floor<seconds>(now))) {
      return invalid_parameter(field, in_quotes(lifecycle.periodic[i].schedule) + " names a moment that never comes");
    }
  }
  if (lifecycle.idle && lifecycle.idle->timeout > kActivityMemory) {
    return invalid_parameter("/lifecycle/idlePolicy/idleTimeoutSeconds",
                             "at most " + std::to_string(kActivityMemory.count()) + " s are allowed");
  }
  if (const std::size_t size = encode_hooks(lifecycle).size(); size > kMostText) {
    return invalid_parameter("/lifecycle", "the hooks are " + std::to_string(size) + " bytes long, at most " +
                                               std::to_string(kMostText) + " are allowed; put scripts into files");
  }
  return {};
}

std::string encode_idle_policy(const IdlePolicy& policy) { return json::serialize(encode_idle(policy)); }

std::optional<IdlePolicy> decode_idle_policy(std::string_view text) {
  const auto value = parse_json(R"({"idlePolicy":)" + std::string(text) + "}");
  if (!value) return std::nullopt;
  ObjectReader r(*value, kLifecycleReading);
  Lifecycle out;
  read_policies(r, out);
  return r.failed() ? std::nullopt : out.idle;
}

std::string encode_hooks(const Lifecycle& lifecycle) {
  if (!lifecycle.has_hooks()) return "";
  json::object out;
  write_hooks(lifecycle, out);
  return json::serialize(out);
}

Result<Lifecycle> decode_hooks(std::string_view text) {
  const auto value = parse_json(text);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  Lifecycle out;
  read_hooks(r, out);
  if (auto done = r.finish(); !done) return Failure(done.error());
  return out;
}

}  // namespace osb::api
