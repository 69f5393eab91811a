#include "controller/model/pod_list.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"

namespace osb::controller {

namespace json = boost::json;

bool PodList::contains(std::string_view pod) const { return std::ranges::find(pods, pod) != pods.end(); }

std::string PodList::to_json() const {
  json::object out{{"pods", json::array(pods.begin(), pods.end())}};
  if (!pool.empty()) out["poolRef"] = pool;
  return json::serialize(out);
}

Result<PodList> PodList::parse(std::string_view text) {
  PodList out;
  if (text.empty()) return out;
  const auto value = api::parse_json(text);
  if (!value) return Failure(value.error());
  const json::object* object = value->if_object();
  if (object == nullptr) return fail(Code::InvalidRequest, "expected an object with a list \"pods\"");
  if (const json::value* pool = object->if_contains("poolRef"); pool != nullptr && pool->is_string()) {
    out.pool = pool->get_string();
  }
  const json::value* pods = object->if_contains("pods");
  if (pods == nullptr || pods->is_null()) return out;
  if (!pods->is_array()) return fail(Code::InvalidRequest, "\"pods\" is no list");
  for (const json::value& each : pods->get_array()) {
    if (!each.is_string() || each.get_string().empty()) {
      return fail(Code::InvalidRequest, "\"pods\" holds something else than names");
    }
    if (!out.contains(each.get_string())) out.pods.emplace_back(each.get_string());
  }
  return out;
}

std::vector<std::string> pods_without(const std::vector<std::string>& list, const std::vector<std::string>& without) {
  std::vector<std::string> out;
  for (const std::string& each : list) {
    if (std::ranges::find(without, each) == without.end()) out.push_back(each);
  }
  return out;
}

}  // namespace osb::controller
