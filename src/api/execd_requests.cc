#include "api/execd_requests.h"

#include <algorithm>
#include <limits>

#include "api/json.h"

namespace osb::api {
namespace {

constexpr ReadOptions kUploadReading{.ignore_case = true, .reason = "INVALID_FILE_METADATA"};

Result<json::value> parse_body(std::string_view body, const ReadOptions& options = kExecdReading) {
  auto value = parse_json(body, {.ignore_trailing = true});
  if (!value) value.error().reason = options.reason;
  return value;
}

// POST /session and POST /pty may come with nothing at all.
Result<json::value> parse_optional_body(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  auto value = parse_body(body);
  if (value && value->is_null()) return json::object();
  return value;
}

void reject_nul(ObjectReader& r, std::string_view name, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) r.reject(name, "must not contain a NUL byte");
}

// A string for the kernel.
std::string plain_string(ObjectReader& r, std::string_view name) {
  std::string text = r.optional_string(name).value_or("");
  reject_nul(r, name, text);
  return text;
}

std::string required_plain_string(ObjectReader& r, std::string_view name) {
  std::string text = r.required_string(name);
  reject_nul(r, name, text);
  return text;
}

std::chrono::milliseconds timeout(ObjectReader& r) {
  const std::chrono::milliseconds wanted(r.optional_int64("timeout", 0).value_or(0));
  return std::min(wanted, kLongestTimeout);
}

std::optional<std::uint32_t> id_number(ObjectReader& r, std::string_view name) {
  // The largest number is (uid_t)-1, which tells setresuid to change nothing: the command would stay root.
  const auto number = r.optional_int64(name, 0, std::numeric_limits<std::uint32_t>::max() - 1);
  return number ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

// Shell text, or a program with its arguments: one of them.
void read_command(ObjectReader& r, RunCommand& out) {
  const auto argv = r.string_list("argv");
  if (!argv) {
    out.command = required_plain_string(r, "command");
    return;
  }
  out.argv = *argv;
  if (out.argv.empty() || out.argv.front().empty()) r.reject("argv", "the program must not be empty");
  for (const std::string& argument : out.argv) reject_nul(r, "argv", argument);
  if (!r.optional_string("command").value_or("").empty()) r.reject("argv", "cannot be combined with command");
}

EnvMap environment(ObjectReader& r) {
  EnvMap envs = r.string_map("envs").value_or(EnvMap());
  for (const auto& [name, value] : envs) {
    if (name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
      r.reject("envs", "names and values must not contain a NUL byte");
    }
  }
  return envs;
}

// The user that a command or a terminal runs as.
void read_user(ObjectReader& r, auto& out) {
  out.uid = id_number(r, "uid");
  out.gid = id_number(r, "gid");
  out.user = plain_string(r, "user");
  if (out.gid && !out.uid) r.reject("gid", "needs uid");
  if (out.uid && !out.user.empty()) r.reject("user", "cannot be combined with uid");
}

FilePermission permission(ObjectReader& r) {
  return {r.optional_int64("mode").value_or(0), plain_string(r, "owner"), plain_string(r, "group")};
}

// The key of a map is the path.
void check_path(ObjectReader& r, const std::string& path) {
  if (path.empty()) r.reject("", "the path must not be empty");
  if (path.find('\0') != std::string::npos) r.reject("", "the path must not contain a NUL byte");
}

template <typename T>
Result<T> finished(const ObjectReader& r, T out) {
  if (auto done = r.finish(); !done) return Failure(std::move(done.error()));
  return out;
}

}  // namespace

Result<RunCommand> decode_run_command(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  RunCommand out;
  read_command(r, out);
  out.cwd = plain_string(r, "cwd");
  out.background = r.optional_bool("background").value_or(false);
  out.timeout = timeout(r);
  read_user(r, out);
  out.envs = environment(r);
  return finished(r, std::move(out));
}

Result<CreateSession> decode_create_session(std::string_view body) {
  const auto value = parse_optional_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  CreateSession out{plain_string(r, "cwd")};
  return finished(r, std::move(out));
}

Result<RunInSession> decode_run_in_session(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  RunInSession out{required_plain_string(r, "command"), plain_string(r, "cwd"), timeout(r)};
  return finished(r, std::move(out));
}

Result<CreatePty> decode_create_pty(std::string_view body) {
  const auto value = parse_optional_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  CreatePty out;
  out.cwd = plain_string(r, "cwd");
  out.command = plain_string(r, "command");
  out.envs = environment(r);
  read_user(r, out);
  return finished(r, std::move(out));
}

Result<PtyFrame> decode_pty_frame(std::string_view text) {
  const auto value = parse_body(text);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  constexpr std::int64_t kMaxSide = std::numeric_limits<std::uint16_t>::max();  // what struct winsize holds
  PtyFrame out;
  out.type = r.optional_string("type").value_or("");
  out.data = r.optional_string("data").value_or("");
  out.signal = r.optional_string("signal").value_or("");
  out.cols = static_cast<int>(r.optional_int64("cols", 0, kMaxSide).value_or(0));
  out.rows = static_cast<int>(r.optional_int64("rows", 0, kMaxSide).value_or(0));
  return finished(r, std::move(out));
}

Result<std::optional<std::uint32_t>> permission_bits(std::int64_t mode) {
  if (mode == 0) return std::nullopt;
  const std::string digits = std::to_string(mode);
  std::uint32_t bits = 0;
  for (const char c : digits) {
    if (c < '0' || c > '7') {
      Error error(Code::Internal, "mode " + digits + ": expected octal digits, such as 755");
      error.reason = "RUNTIME_ERROR";
      return Failure(std::move(error));
    }
    bits = (bits << 3 | static_cast<std::uint32_t>(c - '0')) & 0777;
  }
  return bits;
}

Result<std::vector<PathPermission>> decode_path_permissions(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  std::vector<PathPermission> out;
  r.for_each_object([&](const std::string& path, ObjectReader& entry) {
    check_path(entry, path);
    out.push_back({path, permission(entry)});
  });
  return finished(r, std::move(out));
}

Result<std::vector<MoveFile>> decode_moves(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  std::vector<MoveFile> out;
  const auto done = read_array(*value, kExecdReading, [&](ObjectReader& r) {
    out.push_back({required_plain_string(r, "src"), required_plain_string(r, "dest")});
  });
  if (!done) return Failure(done.error());
  return out;
}

Result<std::vector<ReplaceInFile>> decode_replacements(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  std::vector<ReplaceInFile> out;
  r.for_each_object([&](const std::string& path, ObjectReader& entry) {
    check_path(entry, path);
    out.push_back({path, entry.required_string("old"), entry.optional_string("new").value_or("")});
  });
  return finished(r, std::move(out));
}

Result<PathPermission> decode_upload_metadata(std::string_view body) {
  const auto value = parse_body(body, kUploadReading);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kUploadReading);
  PathPermission out{required_plain_string(r, "path"), permission(r)};
  return finished(r, std::move(out));
}

Result<RunCode> decode_run_code(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  RunCode out;
  out.code = r.required_string("code");
  r.object("context", [&](ObjectReader& context) {
    out.context_id = context.optional_string("id").value_or("");
    out.language = context.optional_string("language").value_or("");
  });
  out.timeout = timeout(r);
  out.cwd = plain_string(r, "cwd");
  out.envs = environment(r);
  return finished(r, std::move(out));
}

Result<CreateCodeContext> decode_create_code_context(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  CreateCodeContext out;
  out.language = r.optional_string("language").value_or("");
  out.cwd = plain_string(r, "cwd");
  out.envs = environment(r);
  out.timeout = timeout(r);
  return finished(r, std::move(out));
}

}  // namespace osb::api
