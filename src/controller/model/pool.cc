#include "controller/model/pool.h"

#include <algorithm>
#include <map>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/concat.h"
#include "base/parse_number.h"
#include "tls/sha256.h"

namespace osb::controller {
namespace {

constexpr int kMostPods = 100'000;

void append_sorted(std::string& out, const json::value& value) {
  if (const json::object* object = value.if_object()) {
    std::map<std::string_view, const json::value*> sorted;
    for (const auto& [key, each] : *object) sorted.emplace(key, &each);
    out += '{';
    for (const auto& [key, each] : sorted) {
      out += json::serialize(json::string(key)) + ':';
      append_sorted(out, *each);
      out += ',';
    }
    out += '}';
  } else if (const json::array* array = value.if_array()) {
    out += '[';
    for (const json::value& each : *array) {
      append_sorted(out, each);
      out += ',';
    }
    out += ']';
  } else {
    out += json::serialize(value);
  }
}

Share read_share(const json::object& from, std::string_view strategy, std::vector<std::string>& problems) {
  const json::value* value = kubernetes::find(from, {"spec", strategy, "maxUnavailable"});
  if (value == nullptr || value->is_null()) return {};
  if (const std::int64_t* count = value->if_int64(); count != nullptr && *count >= 0 && *count <= kMostPods) {
    return {static_cast<int>(*count), false};
  }
  if (value->is_string()) {
    std::string_view digits = value->get_string();
    const bool percent = digits.ends_with('%');
    if (percent) digits.remove_suffix(1);
    const auto number = parse_number<int>(digits);
    if (number && *number >= 0 && *number <= (percent ? 100 : kMostPods)) return {*number, percent};
  }
  problems.push_back("spec." + std::string(strategy) + ".maxUnavailable: expected a number or a percentage");
  return {};
}

}  // namespace

int Share::of(int whole) const { return std::max(1, percent ? (whole * value + 99) / 100 : value); }

std::string template_revision(const json::object& pod_template) {
  std::string text;
  append_sorted(text, json::value(pod_template));
  const auto digest = tls::sha256(text);
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[digest[i] >> 4];
    out += kDigits[digest[i] & 15];
  }
  return out;
}

Pool Pool::read(ObjectPtr object) {
  Pool out;
  out.object = std::move(object);
  const json::object& from = *out.object;
  out.key = kubernetes::key_of(from);
  out.uid = kubernetes::uid_of(from);
  out.generation = kubernetes::number(from, {"metadata", "generation"});
  out.deleting = kubernetes::is_deleting(from);
  const json::value* pods = kubernetes::find(from, {"spec", "template"});
  out.pod_template = pods == nullptr ? nullptr : pods->if_object();
  if (out.pod_template == nullptr) {
    out.problems.push_back("spec.template: expected an object");
  } else {
    out.revision = template_revision(*out.pod_template);
  }
  for (const auto& [name, field] : {std::pair("bufferMin", &out.buffer_min), std::pair("bufferMax", &out.buffer_max),
                                    std::pair("poolMin", &out.pool_min), std::pair("poolMax", &out.pool_max)}) {
    const std::int64_t count = kubernetes::number(from, {"spec", "capacitySpec", name}, -1);
    if (count < 0 || count > kMostPods) {
      out.problems.push_back(concat("spec.capacitySpec.", name, ": expected a number from 0 to ", kMostPods));
    } else {
      *field = static_cast<int>(count);
    }
  }
  out.scale_unavailable = read_share(from, "scaleStrategy", out.problems);
  out.update_unavailable = read_share(from, "updateStrategy", out.problems);
  const std::string_view recycle = kubernetes::text(from, {"spec", "recycleStrategy", "type"});
  if (recycle == "Restart") out.recycle = Recycle::Restart;
  if (recycle == "Noop") out.recycle = Recycle::Noop;
  return out;
}

}  // namespace osb::controller
