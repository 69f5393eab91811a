#include "controller/pool/choose_pool.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <boost/json/array.hpp>

#include "base/parse_number.h"
#include "base/quantity.h"

namespace osb::controller {
namespace {

using kubernetes::find;
using kubernetes::text;

const json::array* list_at(const json::object& object, std::initializer_list<std::string_view> path) {
  const json::value* value = find(object, path);
  return value == nullptr ? nullptr : value->if_array();
}

std::set<std::string> images(const json::object& pod_template) {
  std::set<std::string> out;
  if (const json::array* all = list_at(pod_template, {"spec", "containers"})) {
    for (const json::value& each : *all) {
      if (each.is_object()) out.emplace(text(each.get_object(), {"image"}));
    }
  }
  return out;
}

// Sums in thousandths. A quantity that cannot be read counts as more than any pool has.
std::map<std::string, std::uint64_t> requests(const json::object& pod_template) {
  std::map<std::string, std::uint64_t> out;
  const json::array* all = list_at(pod_template, {"spec", "containers"});
  if (all == nullptr) return out;
  for (const json::value& each : *all) {
    const json::value* wanted = each.is_object() ? find(each.get_object(), {"resources", "requests"}) : nullptr;
    if (wanted == nullptr || !wanted->is_object()) continue;
    for (const auto& [name, amount] : wanted->get_object()) {
      const std::string written = amount.is_string()  ? std::string(amount.get_string())
                                  : amount.is_int64() ? std::to_string(amount.get_int64())
                                                      : "";
      const auto millis = parse_quantity_millis(name, written);
      out[name] += millis ? *millis : std::uint64_t{1} << 62;
    }
  }
  return out;
}

bool matches(const json::object& expression, const std::map<std::string, std::string>& labels) {
  const auto found = labels.find(std::string(text(expression, {"key"})));
  const bool there = found != labels.end();
  const std::string_view how = text(expression, {"operator"});
  const json::array* values = list_at(expression, {"values"});
  const bool listed =
      there && values != nullptr && std::ranges::find(*values, json::value(found->second)) != values->end();
  if (how == "In") return listed;
  if (how == "NotIn") return !listed;
  if (how == "Exists") return there;
  if (how == "DoesNotExist") return !there;
  if (!there || values == nullptr || values->size() != 1 || !values->front().is_string()) return false;
  const auto have = parse_number<std::int64_t>(found->second);
  const auto limit = parse_number<std::int64_t>(std::string_view(values->front().get_string()));
  if (!have || !limit) return false;
  return how == "Gt" ? *have > *limit : how == "Lt" && *have < *limit;
}

bool fits_nodes(const json::object& wanted, const Pool& pool) {
  std::map<std::string, std::string> labels;
  const auto add = [&](const json::value* map) {
    if (map == nullptr || !map->is_object()) return;
    for (const auto& [key, value] : map->get_object()) {
      if (value.is_string()) labels[key] = value.get_string();
    }
  };
  add(find(*pool.object, {"metadata", "labels"}));
  add(find(*pool.pod_template, {"spec", "nodeSelector"}));
  if (const json::value* selector = find(wanted, {"spec", "nodeSelector"});
      selector != nullptr && selector->is_object()) {
    for (const auto& [key, value] : selector->get_object()) {
      const auto found = labels.find(key);
      if (found == labels.end() || !value.is_string() || found->second != std::string_view(value.get_string()))
        return false;
    }
  }
  const json::array* terms = list_at(wanted, {"spec", "affinity", "nodeAffinity",
                                              "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (terms == nullptr || terms->empty()) return true;
  return std::ranges::any_of(*terms, [&](const json::value& term) {
    const json::array* all = term.is_object() ? list_at(term.get_object(), {"matchExpressions"}) : nullptr;
    return all != nullptr && std::ranges::all_of(*all, [&](const json::value& each) {
             return each.is_object() && matches(each.get_object(), labels);
           });
  });
}

bool fits(const json::object& wanted, const Pool& pool) {
  const auto want = images(wanted), have = images(*pool.pod_template);
  if (std::ranges::none_of(want, [&](const std::string& image) { return have.contains(image); })) return false;
  const auto needs = requests(wanted), gives = requests(*pool.pod_template);
  for (const auto& [name, amount] : needs) {
    const auto found = gives.find(name);
    if (found == gives.end() || found->second < amount) return false;
  }
  return fits_nodes(wanted, pool);
}

// The part of its pods that is free, as a fraction; a pool without pods is worth nothing.
std::pair<std::int64_t, std::int64_t> free_part(const Pool& pool) {
  const std::int64_t total = std::max<std::int64_t>(0, kubernetes::number(*pool.object, {"status", "total"}));
  const std::int64_t given =
      std::clamp<std::int64_t>(kubernetes::number(*pool.object, {"status", "allocated"}), 0, total);
  return total == 0 ? std::pair<std::int64_t, std::int64_t>(0, 1) : std::pair(total - given, total);
}

}  // namespace

std::string choose_pool(const BatchSandbox& sandbox, const std::vector<Pool>& pools) {
  const Pool* best = nullptr;
  for (const Pool& pool : pools) {
    if (pool.deleting || !pool.problems.empty()) continue;
    if (sandbox.pod_template != nullptr && !fits(*sandbox.pod_template, pool)) continue;
    if (best != nullptr) {
      const auto [have, of] = free_part(pool);
      const auto [best_have, best_of] = free_part(*best);
      const auto left = have * best_of, right = best_have * of;
      if (left < right || (left == right && best->key.name < pool.key.name)) continue;
    }
    best = &pool;
  }
  return best == nullptr ? "" : best->key.name;
}

}  // namespace osb::controller
