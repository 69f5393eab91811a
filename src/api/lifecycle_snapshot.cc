#include "api/lifecycle_snapshot.h"

#include "api/lifecycle_error.h"
#include "base/json_escape.h"

namespace osb::api {
namespace {

void append_snapshot(std::string& out, const SnapshotView& snapshot) {
  out += R"({"id":)";
  append_json_string(out, snapshot.id);
  out += R"(,"sandboxId":)";
  append_json_string(out, snapshot.sandbox_id);
  if (!snapshot.name.empty()) {
    out += R"(,"name":)";
    append_json_string(out, snapshot.name);
  }
  out += R"(,"status":)";
  append_status(out, *snapshot.status);
  out += R"(,"createdAt":")" + format_timestamp(snapshot.created_at) + "\"}";
}

}  // namespace

Result<CreateSnapshot> decode_create_snapshot(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return CreateSnapshot();
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  if (value->is_null()) return CreateSnapshot();
  ObjectReader r(*value, kLifecycleReading);
  const auto name = r.optional_string("name");
  if (name && name->empty()) r.reject("name", "must not be empty");
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  return CreateSnapshot{name.value_or("")};
}

std::string encode_snapshot(const SnapshotView& snapshot) {
  std::string out;
  append_snapshot(out, snapshot);
  return out;
}

std::string encode_snapshot_list(std::span<const SnapshotView> items, const PageInfo& page) {
  std::string out = R"({"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    append_snapshot(out, items[i]);
  }
  out += R"(],"pagination":)" + encode_page_info(page) + "}";
  return out;
}

}  // namespace osb::api
