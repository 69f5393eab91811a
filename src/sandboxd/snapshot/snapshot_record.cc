#include "sandboxd/snapshot/snapshot_record.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "api/json.h"
#include "base/id.h"

namespace osb::sandboxd {

std::string encode_snapshot(const SnapshotInfo& info) {
  api::json::array layers;
  for (const image::Digest& id : info.base.diff_ids) layers.emplace_back(id.to_string());
  api::json::array snapshots(info.base.snapshots.begin(), info.base.snapshots.end());
  return api::json::serialize(api::json::value{{"id", info.id},
                                               {"image", info.base.image},
                                               {"config", info.base.config},
                                               {"layers", std::move(layers)},
                                               {"snapshots", std::move(snapshots)},
                                               {"created", info.created},
                                               {"entries", info.entries},
                                               {"bytes", info.bytes}});
}

Result<SnapshotInfo> decode_snapshot(std::string_view text) {
  const auto value = api::parse_json(text);
  if (!value) return Failure(value.error());
  api::ObjectReader in(*value, {});
  SnapshotInfo out;
  out.id = in.required_string("id");
  out.base.image = in.optional_string("image").value_or("");
  out.base.config = in.optional_string("config").value_or("");
  const auto layers = in.string_list("layers").value_or(std::vector<std::string>());
  out.base.snapshots = in.string_list("snapshots").value_or(std::vector<std::string>());
  out.created = in.required_int64("created");
  out.entries = static_cast<std::uint64_t>(in.required_int64("entries", 0));
  out.bytes = static_cast<std::uint64_t>(in.required_int64("bytes", 0));
  for (const std::string& layer : layers) {
    const auto id = image::Digest::parse(layer);
    if (!id) return Failure(id.error());
    out.base.diff_ids.push_back(*id);
  }
  for (const std::string& id : out.base.snapshots) {
    if (!is_uuid(id)) in.reject("snapshots", "expected ids");
  }
  if (auto done = in.finish(); !done) return Failure(done.error());
  return out;
}

}  // namespace osb::sandboxd
