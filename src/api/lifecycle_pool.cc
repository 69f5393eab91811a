#include "api/lifecycle_pool.h"

#include <algorithm>

#include "api/lifecycle_error.h"
#include "base/json_escape.h"

namespace osb::api {
namespace {

bool is_pool_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 253 && plain(name.front()) && plain(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return plain(c) || c == '-'; });
}

PoolCapacity read_capacity(ObjectReader& r) {
  PoolCapacity capacity;
  const bool given = r.object("capacitySpec", [&](ObjectReader& spec) {
    capacity.buffer_max = spec.required_int64("bufferMax", 0);
    capacity.buffer_min = spec.required_int64("bufferMin", 0);
    capacity.pool_max = spec.required_int64("poolMax", 0);
    capacity.pool_min = spec.required_int64("poolMin", 0);
  });
  if (!given) r.reject("capacitySpec", "required");
  return capacity;
}

void append_pool(std::string& out, const Pool& pool) {
  const auto number = [&](std::string_view name, std::int64_t value) {
    out += name;
    out += std::to_string(value);
  };
  out += R"({"name":)";
  append_json_string(out, pool.name);
  number(R"(,"capacitySpec":{"bufferMax":)", pool.capacity.buffer_max);
  number(R"(,"bufferMin":)", pool.capacity.buffer_min);
  number(R"(,"poolMax":)", pool.capacity.pool_max);
  number(R"(,"poolMin":)", pool.capacity.pool_min);
  out += '}';
  if (pool.status) {
    number(R"(,"status":{"total":)", pool.status->total);
    number(R"(,"allocated":)", pool.status->allocated);
    number(R"(,"available":)", pool.status->available);
    out += R"(,"revision":)";
    append_json_string(out, pool.status->revision);
    out += '}';
  }
  if (pool.created_at) out += R"(,"createdAt":")" + format_timestamp(*pool.created_at) + '"';
  out += '}';
}

}  // namespace

Result<CreatePool> decode_create_pool(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  CreatePool out;
  out.name = r.required_string("name");
  if (!is_pool_name(out.name)) {
    r.reject("name", "must have at most 253 of a-z, 0-9 and '-', and not begin or end with '-'");
  }
  const json::value* pod = r.find("template");
  if (pod == nullptr || !pod->is_object()) {
    r.reject("template", "required, and must be an object");
  } else {
    out.pod_template = pod->get_object();
  }
  out.capacity = read_capacity(r);
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  return out;
}

Result<PoolCapacity> decode_update_pool(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  const PoolCapacity capacity = read_capacity(r);
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  return capacity;
}

std::string encode_pool(const Pool& pool) {
  std::string out;
  append_pool(out, pool);
  return out;
}

std::string encode_pool_list(std::span<const Pool> pools) {
  std::string out = R"({"items":[)";
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (i > 0) out += ',';
    append_pool(out, pools[i]);
  }
  out += "]}";
  return out;
}

Failure pools_not_supported() {
  return refuse(Code::Unsupported, reason::kPoolNotSupported, "pools need the kubernetes backend");
}

}  // namespace osb::api
