#include "controller/pool/restart.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/duration.h"
#include "controller/names.h"

namespace osb::controller {
namespace {

using kubernetes::text;

std::optional<json::object> parse_object(std::string_view text) {
  if (text.empty()) return std::nullopt;
  auto value = api::parse_json(text);
  if (!value || !value->is_object()) return std::nullopt;
  return std::move(value->get_object());
}

std::vector<std::string> texts(const json::object& object, std::string_view name) {
  std::vector<std::string> out;
  const json::value* list = object.if_contains(name);
  if (list == nullptr || !list->is_array()) return out;
  for (const json::value& each : list->get_array()) {
    if (each.is_string()) out.emplace_back(each.get_string());
  }
  return out;
}

// IDs of the containers that run, by name.
std::map<std::string, std::string> running(const json::object& pod) {
  std::map<std::string, std::string> out;
  const json::value* list = kubernetes::find(pod, {"status", "containerStatuses"});
  if (list == nullptr || !list->is_array()) return out;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object() || kubernetes::find(each.get_object(), {"state", "running"}) == nullptr) continue;
    out.emplace(text(each.get_object(), {"name"}), text(each.get_object(), {"containerID"}));
  }
  return out;
}

}  // namespace

RestartConfig RestartConfig::parse(std::string_view annotation) {
  RestartConfig out;
  const auto object = parse_object(annotation);
  if (!object) return out;
  out.blacklist = texts(*object, "blacklist");
  if (const auto command = texts(*object, "restartCommand"); !command.empty()) out.command = command;
  if (const auto interval = parse_duration(text(*object, {"retryInterval"})); interval && interval->count() > 0) {
    out.retry_interval = *interval;
  }
  const std::int64_t retries = kubernetes::number(*object, {"maxRetries"}, out.max_retries);
  if (retries >= 0 && retries <= 100) out.max_retries = static_cast<int>(retries);
  return out;
}

std::optional<RestartRecord> RestartRecord::parse(std::string_view annotation) {
  const auto object = parse_object(annotation);
  if (!object) return std::nullopt;
  RestartRecord out;
  out.id = text(*object, {"id"});
  out.start_time = text(*object, {"startTime"});
  out.last_retry_time = text(*object, {"lastRetryTime"});
  out.retry_count = static_cast<int>(std::clamp<std::int64_t>(kubernetes::number(*object, {"retryCount"}), 0, 1000));
  if (const json::value* all = object->if_contains("containers"); all != nullptr && all->is_object()) {
    for (const auto& [name, id] : all->get_object()) {
      if (id.is_string()) out.containers.emplace(name, id.get_string());
    }
  }
  return out;
}

std::string RestartRecord::to_json() const {
  json::object all;
  for (const auto& [name, id_of_container] : containers) all[name] = id_of_container;
  return json::serialize(json::object{{"id", id},
                                      {"startTime", start_time},
                                      {"containers", std::move(all)},
                                      {"lastRetryTime", last_retry_time},
                                      {"retryCount", retry_count}});
}

RestartStep plan_restart(const PodFacts& pod, const RestartConfig& config, Timestamp now) {
  using Do = RestartStep::Do;
  // A pod that does not run cannot be asked to restart; a new one costs less than waiting.
  if (pod.phase != "Running") return {.what = Do::Delete};
  const auto alive = running(*pod.object);
  auto record = RestartRecord::parse(kubernetes::annotation(*pod.object, keys::kRestartRecord));
  const std::string time = format_timestamp(now);
  if (!record || record->id != pod.claim) {
    RestartRecord fresh{.id = pod.claim, .start_time = time, .last_retry_time = time};
    std::vector<std::string> names;
    for (const auto& [name, id] : alive) {
      if (std::ranges::find(config.blacklist, name) != config.blacklist.end()) continue;
      fresh.containers.emplace(name, id);
      names.push_back(name);
    }
    if (names.empty()) return {.what = Do::Done};
    return {Do::Kill, std::move(fresh), std::move(names), config.retry_interval};
  }
  std::vector<std::string> old;
  for (const auto& [name, id] : record->containers) {
    const auto found = alive.find(name);
    if (found == alive.end() || found->second == id) old.push_back(name);
  }
  if (old.empty()) return {.what = Do::Done};
  const auto last = parse_timestamp(record->last_retry_time);
  const std::chrono::nanoseconds since = last ? now - *last : config.retry_interval;
  if (since < config.retry_interval) return {Do::Wait, {}, {}, config.retry_interval - since};
  if (record->retry_count >= config.max_retries) return {.what = Do::Delete};
  ++record->retry_count;
  record->last_retry_time = time;
  std::erase_if(old, [&](const std::string& name) { return !alive.contains(name); });
  return {Do::Kill, std::move(*record), std::move(old), config.retry_interval};
}

}  // namespace osb::controller
