#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/error.h"
#include "base/time.h"

// Pools exist on Kubernetes; elsewhere the body is validated and then answered with pools_not_supported().
namespace osb::api {

struct PoolCapacity {
  std::int64_t buffer_max = 0, buffer_min = 0, pool_max = 0, pool_min = 0;

  bool operator==(const PoolCapacity&) const = default;
};

struct CreatePool {
  std::string name;
  json::object pod_template;  // a PodTemplateSpec, passed on
  PoolCapacity capacity;
};
Result<CreatePool> decode_create_pool(std::string_view body);
Result<PoolCapacity> decode_update_pool(std::string_view body);

struct PoolStatus {
  std::int64_t total = 0, allocated = 0, available = 0;
  std::string revision;
};

struct Pool {
  std::string name;
  PoolCapacity capacity;
  std::optional<PoolStatus> status;
  std::optional<Timestamp> created_at;
};
std::string encode_pool(const Pool& pool);
std::string encode_pool_list(std::span<const Pool> pools);

// 501 KUBERNETES::POOL_NOT_SUPPORTED.
Failure pools_not_supported();

}  // namespace osb::api
