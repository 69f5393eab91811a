#include <opensandbox/async.h>

#include "base/id.h"
#include "client/errors.h"
#include "client/json.h"
#include "client/sandbox_state.h"
#include "client/upload_body.h"

namespace opensandbox::async {

Task<std::uint64_t> pump_out(SandboxPtr sandbox, Call call, ByteSink sink,
                             std::function<void(std::optional<std::uint64_t>)> on_start) {
  auto stream = co_await open_execd(sandbox, std::move(call));
  if (!stream) co_return Failure(std::move(stream.error()));
  if (on_start) on_start(stream->body->length());
  std::uint64_t done = 0;
  for (;;) {
    auto piece = co_await stream->body->read();
    if (!piece) co_return co_await explained(sandbox, from_transport(piece.error()).error());
    if (piece->empty()) co_return done;
    done += piece->size();
    if (auto taken = co_await sink(*piece); !taken) co_return Failure(std::move(taken.error()));
  }
}

namespace {

json::object permission_json(const Permission& permission) {
  json::object out;
  if (permission.mode != 0) out["mode"] = permission.mode;
  if (!permission.owner.empty()) out["owner"] = permission.owner;
  if (!permission.group.empty()) out["group"] = permission.group;
  return out;
}

std::string with_paths(std::string target, const std::vector<std::string>& paths) {
  for (const auto& path : paths) add_query(target, "path", path);
  return target;
}

FileInfo info_from(const json::object& object) {
  FileInfo out;
  out.path = text_of(object, "path");
  out.type = text_of(object, "type");
  out.size = static_cast<std::uint64_t>(int_of(object, "size").value_or(0));
  out.mode = static_cast<int>(int_of(object, "mode").value_or(0));
  out.owner = text_of(object, "owner");
  out.group = text_of(object, "group");
  out.modified_at = time_of(object, "modified_at").value_or(Timestamp{});
  out.created_at = time_of(object, "created_at").value_or(Timestamp{});
  out.json = json::serialize(object);
  return out;
}

Task<std::vector<FileInfo>> listing(SandboxPtr sandbox, std::string target) {
  auto reply = co_await call_execd(std::move(sandbox), {.target = std::move(target)});
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_array()) co_return invalid_response("the listing is no JSON array", reply->request_id);
  std::vector<FileInfo> out;
  for (const auto& item : value->get_array()) {
    if (const auto* object = item.if_object()) out.push_back(info_from(*object));
  }
  co_return out;
}

Task<std::map<std::string, FileInfo>> describe(SandboxPtr sandbox, std::string target) {
  auto reply = co_await call_execd(std::move(sandbox), {.target = std::move(target)});
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the answer is no JSON object", reply->request_id);
  std::map<std::string, FileInfo> out;
  for (const auto& member : value->get_object()) {
    if (const auto* object = member.value().if_object()) out.emplace(member.key(), info_from(*object));
  }
  co_return out;
}

Task<FileInfo> describe_one(SandboxPtr sandbox, std::string target, std::string path) {
  auto all = co_await describe(std::move(sandbox), std::move(target));
  if (!all) co_return Failure(std::move(all.error()));
  const auto found = all->find(path);
  if (found == all->end()) co_return invalid_response("the answer does not hold " + path);
  co_return std::move(found->second);
}

// --- reading

Result<Call> download_call(const std::string& prefix, const std::string& path, const ReadRange& range) {
  const bool bytes = range.first_byte || range.byte_count;
  if (bytes && (range.first_line || range.line_count)) {
    return invalid_argument("range: bytes or lines, not both");
  }
  Call call{.target = with_paths(prefix + "/files/download", {path})};
  if (bytes) {
    const std::uint64_t first = range.first_byte.value_or(0);
    std::string text = "bytes=" + std::to_string(first) + '-';
    if (range.byte_count) {
      if (*range.byte_count == 0) return invalid_argument("range: byte_count must be positive");
      text += std::to_string(first + *range.byte_count - 1);
    }
    call.headers.add("Range", text);
  }
  if (range.first_line || range.line_count) {
    add_query(call.target, "offset", std::to_string(range.first_line.value_or(1)));
    if (range.line_count) add_query(call.target, "limit", std::to_string(*range.line_count));
  }
  return call;
}

Task<std::string> read_whole(SandboxPtr sandbox, Call call) {
  std::string out;
  ByteSink sink = [&out](std::string_view piece) -> Task<void> {
    out.append(piece);
    co_return Result<void>();
  };
  auto done = co_await pump_out(std::move(sandbox), std::move(call), sink, [&out](std::optional<std::uint64_t> length) {
    constexpr std::uint64_t kMostReserved = 64 * 1024 * 1024;  // a length is only a promise
    if (length) out.reserve(static_cast<std::size_t>(std::min(*length, kMostReserved)));
  });
  if (!done) co_return Failure(std::move(done.error()));
  co_return out;
}

// --- writing

// The parts in front of a file's bytes.
std::string part_head(const std::string& boundary, const std::string& path, const Permission& permission) {
  json::object metadata = permission_json(permission);
  metadata["path"] = path;
  std::string out;
  out.append("--").append(boundary);
  out.append("\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"");
  out.append("\r\nContent-Type: application/json\r\n\r\n").append(json::serialize(metadata));
  out.append("\r\n--").append(boundary);
  out.append("\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"");
  out.append("\r\nContent-Type: application/octet-stream\r\n\r\n");
  return out;
}

std::string new_boundary() { return "opensandbox-" + osb::new_hex_id(); }
std::string form_type(const std::string& boundary) { return "multipart/form-data; boundary=" + boundary; }

Call upload_call(const std::string& prefix, const std::string& boundary) {
  return {.method = "POST", .target = prefix + "/files/upload", .content_type = form_type(boundary)};
}

Task<std::uint64_t> pump_in(SandboxPtr sandbox, Call call, std::shared_ptr<UploadBody> body) {
  auto peer = co_await sandbox->execd();
  if (!peer) co_return Failure(std::move(peer.error()));
  auto reply = co_await send_upload(sandbox->wire(), std::move(*peer), std::move(call), body);
  if (!reply && reply.error().kind == ErrorKind::Network) sandbox->forget();
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return body->sent();
}

// One request from strings; whole files in memory are sent from memory.
Task<void> send_strings(SandboxPtr sandbox, std::string prefix, std::vector<WriteEntry> entries) {
  const std::string boundary = new_boundary();
  // Empty pieces would end the body: a file without bytes has none.
  std::uint64_t length = 0;
  std::vector<std::string_view> pieces;
  std::vector<std::string> texts;
  texts.reserve(entries.size() + 1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    texts.push_back((i == 0 ? "" : "\r\n") + part_head(boundary, entries[i].path, entries[i].permission));
    pieces.push_back(texts.back());
    if (!entries[i].data.empty()) pieces.push_back(entries[i].data);
  }
  texts.push_back("\r\n--" + boundary + "--\r\n");
  pieces.push_back(texts.back());
  for (const auto piece : pieces) length += piece.size();
  std::size_t next = 0;
  ByteSource source = [&pieces, &next]() -> Task<std::string_view> {
    co_return next < pieces.size() ? pieces[next++] : std::string_view();
  };
  auto body = std::make_shared<UploadBody>("", source, "", length);
  auto sent = co_await pump_in(std::move(sandbox), upload_call(prefix, boundary), body);
  if (!sent) co_return Failure(std::move(sent.error()));
  co_return Result<void>();
}

Task<std::map<std::string, std::int64_t>> replace_texts(SandboxPtr sandbox, Call call) {
  auto reply = co_await call_execd(std::move(sandbox), std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  std::map<std::string, std::int64_t> out;
  if (reply->body.empty()) co_return out;  // an execd that does not count
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the answer is no JSON object", reply->request_id);
  for (const auto& member : value->get_object()) {
    if (const auto* object = member.value().if_object()) {
      out.emplace(member.key(), int_of(*object, "replacedCount").value_or(0));
    }
  }
  co_return out;
}

}  // namespace

Task<std::string> Files::read(std::string path, ReadRange range) const {
  auto call = download_call(prefix_, path, range);
  if (!call) return failed_task<std::string>(Failure(std::move(call.error())));
  return read_whole(sandbox_, std::move(*call));
}

Task<std::uint64_t> Files::read_to(std::string path, ByteSink sink, ReadRange range,
                                   std::function<void(std::optional<std::uint64_t>)> on_start) const {
  auto call = download_call(prefix_, path, range);
  if (!call) return failed_task<std::uint64_t>(Failure(std::move(call.error())));
  return pump_out(sandbox_, std::move(*call), std::move(sink), std::move(on_start));
}

Task<void> Files::write(std::string path, std::string data, Permission permission) const {
  std::vector<WriteEntry> entries(1);
  entries[0] = {.path = std::move(path), .data = std::move(data), .permission = std::move(permission)};
  return send_strings(sandbox_, prefix_, std::move(entries));
}

Task<void> Files::write_all(std::vector<WriteEntry> entries) const {
  if (entries.empty()) return failed_task<void>(invalid_argument("write_all: there is nothing to write"));
  return send_strings(sandbox_, prefix_, std::move(entries));
}

Task<std::uint64_t> Files::write_from(std::string path, ByteSource source, Permission permission,
                                      std::optional<std::uint64_t> length) const {
  const std::string boundary = new_boundary();
  auto body = std::make_shared<UploadBody>(part_head(boundary, path, permission), std::move(source),
                                           "\r\n--" + boundary + "--\r\n", length);
  return pump_in(sandbox_, upload_call(prefix_, boundary), std::move(body));
}

Task<std::uint64_t> Files::read_archive(std::string remote, ByteSink sink) const {
  return pump_out(sandbox_, {.target = with_paths(prefix_ + "/directories/archive", {remote})}, std::move(sink), {});
}

Task<std::uint64_t> Files::write_archive(std::string remote, ByteSource source) const {
  Call call{.method = "POST",
            .target = with_paths(prefix_ + "/directories/archive", {remote}),
            .content_type = "application/x-tar"};
  return pump_in(sandbox_, std::move(call), std::make_shared<UploadBody>("", std::move(source), "", std::nullopt));
}

Task<FileInfo> Files::info(std::string path) const {
  std::string target = with_paths(prefix_ + "/files/info", {path});
  return describe_one(sandbox_, std::move(target), std::move(path));
}

Task<std::map<std::string, FileInfo>> Files::infos(std::vector<std::string> paths) const {
  return describe(sandbox_, with_paths(prefix_ + "/files/info", paths));
}

Task<std::vector<FileInfo>> Files::list(std::string path, std::optional<int> depth) const {
  std::string target = with_paths(prefix_ + "/directories/list", {path});
  if (depth) add_query(target, "depth", std::to_string(*depth));
  return listing(sandbox_, std::move(target));
}

Task<std::vector<FileInfo>> Files::search(std::string path, std::string pattern) const {
  std::string target = with_paths(prefix_ + "/files/search", {path});
  add_query(target, "pattern", pattern);
  return listing(sandbox_, std::move(target));
}

Task<void> Files::move_all(std::vector<std::pair<std::string, std::string>> moves) const {
  json::array body;
  for (const auto& [from, to] : moves) body.push_back(json::object{{"src", from}, {"dest", to}});
  return tell_execd(sandbox_, json_call("POST", prefix_ + "/files/mv", json::serialize(body)));
}

Task<void> Files::remove(std::vector<std::string> paths) const {
  if (paths.empty()) return failed_task<void>(invalid_argument("remove: there is nothing to remove"));
  return tell_execd(sandbox_, {.method = "DELETE", .target = with_paths(prefix_ + "/files", paths)});
}

Task<void> Files::make_directories(std::vector<std::string> paths, Permission permission) const {
  json::object body;
  for (const auto& path : paths) body[path] = permission_json(permission);
  return tell_execd(sandbox_, json_call("POST", prefix_ + "/directories", json::serialize(body)));
}

Task<void> Files::remove_directories(std::vector<std::string> paths) const {
  if (paths.empty()) return failed_task<void>(invalid_argument("remove_directories: there is nothing to remove"));
  return tell_execd(sandbox_, {.method = "DELETE", .target = with_paths(prefix_ + "/directories", paths)});
}

Task<void> Files::set_permissions(std::map<std::string, Permission> paths) const {
  json::object body;
  for (const auto& [path, permission] : paths) body[path] = permission_json(permission);
  return tell_execd(sandbox_, json_call("POST", prefix_ + "/files/permissions", json::serialize(body)));
}

Task<std::map<std::string, std::int64_t>> Files::replace(
    std::vector<opensandbox::Files::Replacement> replacements) const {
  json::object body;
  for (const auto& one : replacements) {
    body[one.path] = json::object{{"old", one.old_text}, {"new", one.new_text}};
  }
  return replace_texts(sandbox_, json_call("POST", prefix_ + "/files/replace?verbose=true", json::serialize(body)));
}

}  // namespace opensandbox::async
