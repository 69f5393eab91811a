#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "containerd/protobuf.h"
#include "image/manifest.h"

namespace osb::containerd {

// Messages of containerd's API, with the fields that this module uses. Decoders fail with Code::InvalidRequest for
// bytes that are no message; a missing field has its empty value.

using Labels = std::map<std::string, std::string>;

struct Container {
  std::string id, image, runtime, snapshotter, snapshot_key;
  std::pair<std::int64_t, std::uint64_t> created_at;  // seconds since 1970, nanoseconds
  static Result<Container> decode(std::string_view bytes);
};

enum class TaskStatus : std::uint8_t { Unknown, Created, Running, Stopped, Paused, Pausing };

struct Mount {
  std::string type, source, target;
  std::vector<std::string> options;
  static Result<Mount> decode(std::string_view bytes);
  ProtoWriter encode() const;
  bool operator==(const Mount&) const = default;
};

struct SnapshotInfo {
  std::string parent;   // empty: none
  bool active = false;  // it can be written to; otherwise only read
  static Result<SnapshotInfo> decode(std::string_view bytes);
};

struct BlobInfo {
  std::uint64_t size = 0;
  Labels labels;
  static Result<BlobInfo> decode(std::string_view bytes);
};

// A name and the manifest or index that it stands for.
struct ImageName {
  std::string name;
  image::Descriptor target;
  static Result<ImageName> decode(std::string_view bytes);
  ProtoWriter encode() const;
};

// Code::InvalidRequest also for a digest that is not SHA-256.
Result<image::Descriptor> decode_descriptor(std::string_view bytes);

// Answers: the message or messages that they hold.
Result<std::vector<Container>> decode_containers(std::string_view answer);
Result<TaskStatus> decode_task(std::string_view answer);
Result<std::vector<Mount>> decode_mounts(std::string_view answer);
Result<SnapshotInfo> decode_snapshot(std::string_view answer);
Result<BlobInfo> decode_blob(std::string_view answer);
Result<image::Descriptor> decode_diff(std::string_view answer);
Result<ImageName> decode_image(std::string_view answer);
Result<std::vector<ImageName>> decode_images(std::string_view answer);
// The data of a piece of a blob; a view into `answer`.
Result<std::string_view> decode_piece(std::string_view answer);

}  // namespace osb::containerd
