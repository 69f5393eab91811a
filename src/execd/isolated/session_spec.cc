#include "execd/isolated/session_spec.h"

#include "base/parse_number.h"
#include "execd/isolated/packet.h"
#include "execd/path/path.h"

namespace osb::execd {
namespace {

// Fields before the mounts, by version: a sandbox of an earlier daemon still has the execd of that time, which sends
// the first, without a reserve, or the second, without user namespaces.
constexpr std::size_t kHeads[] = {7, 9, 10};
constexpr std::size_t kPerMount = 4;
constexpr std::size_t kMaxMounts = 128;

std::string text_of(const std::optional<std::uint32_t>& id) { return id ? std::to_string(*id) : ""; }

bool is_good_path(const std::string& path) {
  return path.size() > 1 && path.starts_with('/') && !path.contains('\0') && clean_path(path) == path;
}

}  // namespace

std::string encode_session_spec(const SessionSpec& spec) {
  std::vector<std::string> out = {"3",
                                  spec.private_tmp ? "1" : "0",
                                  spec.share_net ? "1" : "0",
                                  text_of(spec.uid),
                                  text_of(spec.gid),
                                  std::to_string(spec.upper_bytes),
                                  std::to_string(spec.diff_bytes),
                                  std::to_string(spec.reserve.bytes),
                                  std::to_string(spec.reserve.inodes),
                                  spec.user_namespace ? "1" : "0"};
  for (const SessionMount& mount : spec.mounts) {
    const char* mode = mount.mode == SessionMount::Mode::ReadWrite  ? "rw"
                       : mount.mode == SessionMount::Mode::ReadOnly ? "ro"
                                                                    : "overlay";
    out.insert(out.end(), {mount.source, mount.path, mode, mount.persist ? "1" : "0"});
  }
  return pack_strings(out);
}

Result<SessionSpec> decode_session_spec(std::string_view bytes) {
  const auto wrong = [](std::string what) { return fail(Code::InvalidRequest, "session: " + std::move(what)); };
  auto fields = unpack_strings(bytes);
  if (!fields) return Failure(fields.error());
  const auto version = fields->empty() ? std::nullopt : parse_number<std::size_t>(fields->front());
  if (!version || *version < 1 || *version > std::size(kHeads)) return wrong("an unknown version");
  const std::size_t head = kHeads[*version - 1];
  if (fields->size() < head || (fields->size() - head) % kPerMount != 0) {
    return wrong("not a description of a session");
  }
  SessionSpec out;
  out.private_tmp = (*fields)[1] == "1";
  out.share_net = (*fields)[2] == "1";
  for (const auto& [text, id] : {std::pair(&(*fields)[3], &out.uid), std::pair(&(*fields)[4], &out.gid)}) {
    if (text->empty()) continue;
    const auto number = parse_number<std::uint32_t>(*text);
    if (!number || *number == UINT32_MAX) return wrong("a bad user or group");
    *id = number;
  }
  const auto upper = parse_number<std::uint64_t>((*fields)[5]);
  const auto diff = parse_number<std::uint64_t>((*fields)[6]);
  if (!upper || !diff || *upper == 0) return wrong("a bad size");
  out.upper_bytes = *upper;
  out.diff_bytes = *diff;
  if (*version >= 2) {
    const auto bytes = parse_number<std::int64_t>((*fields)[7]), inodes = parse_number<std::int64_t>((*fields)[8]);
    if (!bytes || !inodes) return wrong("a bad reserve");
    out.reserve = {*bytes, *inodes};
  }
  out.user_namespace = *version >= 3 && (*fields)[9] == "1";
  if ((fields->size() - head) / kPerMount > kMaxMounts) return wrong("too many mounts");
  for (std::size_t at = head; at < fields->size(); at += kPerMount) {
    SessionMount mount{(*fields)[at], (*fields)[at + 1], SessionMount::Mode::ReadOnly, (*fields)[at + 3] == "1"};
    const std::string& mode = (*fields)[at + 2];
    if (mode == "rw") mount.mode = SessionMount::Mode::ReadWrite;
    if (mode == "overlay") mount.mode = SessionMount::Mode::Overlay;
    if (!is_good_path(mount.source) || !is_good_path(mount.path)) return wrong("a bad path");
    out.mounts.push_back(std::move(mount));
  }
  return out;
}

}  // namespace osb::execd
