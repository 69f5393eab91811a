#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "api/json.h"
#include "kubernetes/api_status.h"
#include "kubernetes/cluster_config.h"
#include "kubernetes/lease.h"
#include "kubernetes/patch.h"
#include "kubernetes/pod_streams.h"
#include "kubernetes/selector.h"
#include "kubernetes/watch.h"

// Answers of an API server, kubeconfigs, selectors and patches of strangers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::kubernetes;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)parse_kubeconfig(bytes, "/");
  (void)api_error(409, bytes);
  (void)parse_exec_status(bytes);
  const auto labels = LabelSelector::parse(bytes);
  const auto fields = FieldSelector::parse(bytes);

  // However the bytes of a watch are cut, the same events come out.
  WatchDecoder whole, cut;
  whole.add(bytes);
  std::size_t given = 0;
  for (;;) {
    const auto expected = whole.next();
    auto event = cut.next();
    while (event && !*event && given < bytes.size()) {
      cut.add(std::string_view(bytes).substr(given++, 1));
      event = cut.next();
    }
    if (expected.has_value() != event.has_value()) std::abort();
    if (!expected || !*expected) break;
    if (!*event || *(*expected)->object != *(*event)->object) std::abort();
    const json::object& object = *(*event)->object;
    (void)key_of(object);
    (void)controller_uid(object);
    (void)LeaseRecord::parse(object);
    if (labels) (void)labels->matches(object);
    if (fields) (void)fields->matches(object);
  }

  const std::size_t middle = bytes.find('\n');
  if (middle == std::string::npos) return 0;
  const auto target = osb::api::parse_json(std::string_view(bytes).substr(0, middle));
  const auto patch = osb::api::parse_json(std::string_view(bytes).substr(middle + 1));
  if (!target || !patch || !target->is_object() || !patch->is_object()) return 0;
  json::value merged = *target;
  merge_patch(merged, *patch);
  json::object strategic = target->get_object();
  (void)strategic_merge_patch(strategic, patch->get_object());
  // A merge patch cannot set a field to null, so objects with nulls have no way between them.
  if (bytes.find("null") != std::string::npos) return 0;
  json::value reached = *target;
  merge_patch(reached, merge_patch_between(target->get_object(), patch->get_object()));
  if (reached != *patch) std::abort();
  return 0;
}
