#include "runtime/kubernetes/kubernetes_pools.h"

#include "api/lifecycle_error.h"
#include "kubernetes/api_status.h"
#include "kubernetes/object.h"
#include "runtime/kubernetes/manifest.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using kubernetes::number;

json::object capacity_spec(const api::PoolCapacity& capacity) {
  return {{"bufferMax", capacity.buffer_max},
          {"bufferMin", capacity.buffer_min},
          {"poolMax", capacity.pool_max},
          {"poolMin", capacity.pool_min}};
}

api::Pool read_pool(const json::object& object) {
  api::Pool out;
  out.name = kubernetes::key_of(object).name;
  const auto wanted = [&](std::string_view name) { return number(object, {"spec", "capacitySpec", name}); };
  out.capacity = {wanted("bufferMax"), wanted("bufferMin"), wanted("poolMax"), wanted("poolMin")};
  // Before the controller has looked at it there is nothing to tell.
  if (kubernetes::find(object, {"status", "total"}) != nullptr) {
    const auto now = [&](std::string_view name) { return number(object, {"status", name}); };
    out.status = api::PoolStatus{now("total"), now("allocated"), now("available"),
                                 std::string(kubernetes::text(object, {"status", "revision"}))};
  }
  if (const auto at = parse_timestamp(kubernetes::text(object, {"metadata", "creationTimestamp"})))
    out.created_at = *at;
  return out;
}

Failure refused(const Error& error, const std::string& name) {
  if (error.code == Code::Unavailable) return Failure(error);
  if (kubernetes::is_not_found(error)) {
    return api::refuse(Code::NotFound, "KUBERNETES::POOL_NOT_FOUND", "pool " + name + " does not exist");
  }
  if (kubernetes::already_exists(error)) {
    return api::refuse(Code::Conflict, "KUBERNETES::POOL_ALREADY_EXISTS", "pool " + name + " exists already");
  }
  const bool wrong = error.reason == kubernetes::reasons::kInvalid || error.code == Code::InvalidRequest;
  return api::refuse(wrong ? Code::InvalidRequest : Code::Internal,
                     wrong ? api::reason::kInvalidParameter : "KUBERNETES::POOL_API_ERROR", error.message);
}

Result<api::Pool> answer(const Result<json::object>& object, const std::string& name) {
  if (!object) return refused(object.error(), name);
  return read_pool(*object);
}

}  // namespace

kubernetes::Ref KubernetesPools::ref(const std::string& name) const { return {kPools, {options_.ns, name}}; }

net::awaitable<Result<api::Pool>> KubernetesPools::create(api::CreatePool pool) {
  json::object object{
      {"metadata", {{"name", pool.name}}},
      {"spec", {{"template", std::move(pool.pod_template)}, {"capacitySpec", capacity_spec(pool.capacity)}}}};
  co_return answer(co_await client_.create(kPools, options_.ns, std::move(object)), pool.name);
}

net::awaitable<Result<std::vector<api::Pool>>> KubernetesPools::list() {
  const auto listed = co_await client_.list(kPools, options_.ns);
  std::vector<api::Pool> out;
  // A cluster without the CRD has no pools.
  if (!listed && kubernetes::is_not_found(listed.error())) co_return out;
  if (!listed) co_return refused(listed.error(), "");
  for (const kubernetes::ObjectPtr& each : listed->items) out.push_back(read_pool(*each));
  co_return out;
}

net::awaitable<Result<api::Pool>> KubernetesPools::get(std::string name) {
  co_return answer(co_await client_.get(ref(name)), name);
}

net::awaitable<Result<api::Pool>> KubernetesPools::resize(std::string name, api::PoolCapacity capacity) {
  json::object patch{{"spec", {{"capacitySpec", capacity_spec(capacity)}}}};
  co_return answer(co_await client_.patch(ref(name), kubernetes::PatchType::Merge, std::move(patch)), name);
}

net::awaitable<Result<void>> KubernetesPools::remove(std::string name) {
  const auto removed = co_await client_.remove(ref(name));
  if (!removed) co_return refused(removed.error(), name);
  co_return Result<void>();
}

}  // namespace osb::runtime
