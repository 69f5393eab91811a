#include "containerd/messages.h"

#include <algorithm>
#include <utility>

namespace osb::containerd {
namespace {

// Calls `read` with each field; it may fail.
template <typename Read>
Result<void> each_field(std::string_view bytes, Read read) {
  ProtoReader in(bytes);
  for (ProtoField field; in.next(field);) {
    if (Result<void> done = read(field); !done) return done;
  }
  return in.finish();
}

template <typename T>
Result<void> store(T& into, Result<T> value) {
  if (!value) return Failure(value.error());
  into = std::move(*value);
  return {};
}

template <typename T>
Result<void> append(std::vector<T>& into, Result<T> value) {
  if (!value) return Failure(value.error());
  into.push_back(std::move(*value));
  return {};
}

// The elements of repeated field `number`, which is all of the answer.
template <typename T, typename Decode>
Result<std::vector<T>> decode_list(std::string_view answer, std::uint32_t number, Decode decode) {
  std::vector<T> out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    return field.is_text(number) ? append(out, decode(field.bytes)) : Result<void>();
  };
  if (auto done = each_field(answer, read); !done) return Failure(done.error());
  return out;
}

// The message in field `number`, which is all of the answer.
template <typename Decode>
auto decode_only(std::string_view answer, std::uint32_t number, Decode decode) -> decltype(decode(answer)) {
  std::string_view inner;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(number)) inner = field.bytes;
    return {};
  };
  if (auto done = each_field(answer, read); !done) return Failure(done.error());
  return decode(inner);
}

Result<std::pair<std::int64_t, std::uint64_t>> decode_time(std::string_view timestamp) {
  std::pair<std::int64_t, std::uint64_t> out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_number(1)) out.first = static_cast<std::int64_t>(field.value);
    if (field.is_number(2)) out.second = field.value;
    return {};
  };
  if (auto done = each_field(timestamp, read); !done) return Failure(done.error());
  return out;
}

// The first field of a message, a text.
Result<std::string> decode_first_text(std::string_view bytes) {
  std::string out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(1)) out = field.bytes;
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  return out;
}

ProtoWriter encode_descriptor(const image::Descriptor& descriptor) {
  return ProtoWriter().text(1, descriptor.media_type).text(2, descriptor.digest.to_string()).number(3, descriptor.size);
}

}  // namespace

Result<Container> Container::decode(std::string_view bytes) {
  Container out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(1)) out.id = field.bytes;
    if (field.is_text(3)) out.image = field.bytes;
    if (field.is_text(4)) return store(out.runtime, decode_first_text(field.bytes));
    if (field.is_text(6)) out.snapshotter = field.bytes;
    if (field.is_text(7)) out.snapshot_key = field.bytes;
    if (field.is_text(8)) return store(out.created_at, decode_time(field.bytes));
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  return out;
}

Result<Mount> Mount::decode(std::string_view bytes) {
  Mount out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(1)) out.type = field.bytes;
    if (field.is_text(2)) out.source = field.bytes;
    if (field.is_text(3)) out.target = field.bytes;
    if (field.is_text(4)) out.options.emplace_back(field.bytes);
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  return out;
}

ProtoWriter Mount::encode() const {
  ProtoWriter out;
  out.text(1, type).text(2, source).text(3, target);
  for (const std::string& option : options) out.item(4, option);
  return out;
}

Result<SnapshotInfo> SnapshotInfo::decode(std::string_view bytes) {
  constexpr std::uint64_t kActive = 2;
  SnapshotInfo out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(2)) out.parent = field.bytes;
    if (field.is_number(3)) out.active = field.value == kActive;
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  return out;
}

Result<BlobInfo> BlobInfo::decode(std::string_view bytes) {
  BlobInfo out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_number(2)) out.size = field.value;
    if (field.is_text(5)) return read_entry(field.bytes, out.labels);
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  return out;
}

Result<image::Descriptor> decode_descriptor(std::string_view bytes) {
  image::Descriptor out;
  std::string_view digest;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(1)) out.media_type = field.bytes;
    if (field.is_text(2)) digest = field.bytes;
    if (field.is_number(3)) out.size = field.value;
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  const auto parsed = image::Digest::parse(digest);
  if (!parsed) return fail(Code::InvalidRequest, "containerd names a blob without a SHA-256 digest");
  out.digest = *parsed;
  return out;
}

Result<ImageName> ImageName::decode(std::string_view bytes) {
  ImageName out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (field.is_text(1)) out.name = field.bytes;
    if (field.is_text(3)) return store(out.target, decode_descriptor(field.bytes));
    return {};
  };
  if (auto done = each_field(bytes, read); !done) return Failure(done.error());
  return out;
}

ProtoWriter ImageName::encode() const { return ProtoWriter().text(1, name).message(3, encode_descriptor(target)); }

Result<std::vector<Container>> decode_containers(std::string_view answer) {
  return decode_list<Container>(answer, 1, Container::decode);
}

Result<TaskStatus> decode_task(std::string_view answer) {
  return decode_only(answer, 1, [](std::string_view process) -> Result<TaskStatus> {
    auto out = TaskStatus::Unknown;
    const auto read = [&](const ProtoField& field) -> Result<void> {
      if (field.is_number(4) && field.value <= static_cast<std::uint64_t>(TaskStatus::Pausing)) {
        out = static_cast<TaskStatus>(field.value);
      }
      return {};
    };
    if (auto done = each_field(process, read); !done) return Failure(done.error());
    return out;
  });
}

Result<std::vector<Mount>> decode_mounts(std::string_view answer) {
  return decode_list<Mount>(answer, 1, Mount::decode);
}
Result<SnapshotInfo> decode_snapshot(std::string_view answer) { return decode_only(answer, 1, SnapshotInfo::decode); }
Result<BlobInfo> decode_blob(std::string_view answer) { return decode_only(answer, 1, BlobInfo::decode); }
Result<image::Descriptor> decode_diff(std::string_view answer) { return decode_only(answer, 3, decode_descriptor); }
Result<ImageName> decode_image(std::string_view answer) { return decode_only(answer, 1, ImageName::decode); }

// An image of a kind that this module cannot use (another kind of digest) does not hide the others.
Result<std::vector<ImageName>> decode_images(std::string_view answer) {
  std::vector<ImageName> out;
  const auto read = [&](const ProtoField& field) -> Result<void> {
    if (!field.is_text(1)) return {};
    if (auto image = ImageName::decode(field.bytes)) out.push_back(std::move(*image));
    return {};
  };
  if (auto done = each_field(answer, read); !done) return Failure(done.error());
  return out;
}

Result<std::string_view> decode_piece(std::string_view answer) {
  return decode_only(answer, 2, [](std::string_view data) -> Result<std::string_view> { return data; });
}

}  // namespace osb::containerd
