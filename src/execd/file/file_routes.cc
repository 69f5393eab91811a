#include "execd/file/file_routes.h"

#include <functional>
#include <limits>
#include <memory>
#include <sys/stat.h>

#include "api/execd_requests.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "execd/file/archive.h"
#include "execd/file/content/download.h"
#include "execd/file/content/upload.h"
#include "execd/file/edit.h"
#include "execd/file/listing/file_info.h"
#include "execd/file/listing/listing_response.h"
#include "execd/owner/identity.h"
#include "execd/owner/owner_names.h"
#include "execd/owner/permission.h"
#include "http/url.h"
#include "sys/remove_tree.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxJson = 64 * 1024 * 1024;  // replacements carry file contents
// More paths than this in one request are looked up on the pool.
constexpr std::size_t kFewPaths = 16;

using http::Request;
using http::Response;

// The context and the request outlive the call.
using FileHandler = std::function<net::awaitable<Response>(const FileContext&, Request&)>;

// The part that most handlers share: a failure becomes its response.
template <typename Handle>
FileHandler handler(Handle handle) {
  return [handle](const FileContext& context, Request& request) -> net::awaitable<Response> {
    Result<Response> response = co_await handle(context, request);
    if (!response) co_return file_problem(response.error());
    co_return std::move(*response);
  };
}

// The daemon's context with the rights of the user that the path names.
Result<FileContext> context_of(const FileContext& daemon, const Request& request, OwnerDatabase& owners) {
  auto identity = parse_identity(request.params["uid"], request.params["gid"]);
  if (!identity) return Failure(identity.error());
  if (*identity == own_identity()) return daemon;
  // Before anything of the request is read: later on it would be told in other words, or not at all.
  if (auto possible = IdentityScope::enter(*identity); !possible) return Failure(possible.error());
  return FileContext{daemon.pool.as(*identity), owners, daemon.env, daemon.cwd, daemon.scope, daemon.reserve};
}

Result<std::string> required_path(const FileContext& context, const http::Query& query) {
  if (query.get("path").empty()) {
    Error error(Code::InvalidRequest, "query parameter path is required");
    error.reason = "MISSING_QUERY";
    return Failure(std::move(error));
  }
  return context.resolve(query.get("path"));
}

net::awaitable<Result<std::string>> json_body(Request& request) {
  auto body = co_await request.body->read_all(kMaxJson);
  if (!body) {
    Error error = body.error();
    error.code = Code::InvalidRequest;
    co_return Failure(std::move(error));
  }
  co_return body;
}

// --- GET /files/info

Result<std::string> describe(const FileContext& context, const std::vector<std::string>& paths) {
  FileInfoWriter writer{OwnerNames(context.owners)};
  std::string json = "{";
  for (const std::string& given : paths) {
    auto path = context.resolve(given);
    if (!path) return Failure(path.error());
    struct stat st;
    if (::lstat(path->c_str(), &st) < 0) return sys::from_errno("stat " + *path, errno);
    if (json.size() > 1) json += ',';
    append_json_string(json, given);
    json += ':';
    writer.append(json, *path, st);
  }
  json += '}';
  return json;
}

net::awaitable<Result<Response>> info(const FileContext& context, Request& request) {
  const auto paths = http::Query::parse(request.query()).all("path");
  const bool at_once = context.pool.is_daemon() && paths.size() <= kFewPaths;
  auto json = at_once ? describe(context, paths) : co_await context.pool.run([&] { return describe(context, paths); });
  if (!json) co_return Failure(json.error());
  co_return http::json_response(200, std::move(*json));
}

// --- DELETE /files, DELETE /directories

net::awaitable<Result<Response>> remove_each(const FileContext& context, Request& request,
                                             Result<void> (*remove)(const std::string&)) {
  const auto paths = http::Query::parse(request.query()).all("path");
  auto done = co_await context.pool.run([&]() -> Result<void> {
    for (const std::string& given : paths) {
      auto path = context.resolve(given);
      if (!path) return Failure(path.error());
      if (auto ok = remove(*path); !ok) return ok;
    }
    return {};
  });
  if (!done) co_return Failure(done.error());
  co_return http::empty_response();
}

net::awaitable<Result<Response>> remove_files(const FileContext& context, Request& request) {
  return remove_each(context, request, &remove_file);
}

net::awaitable<Result<Response>> remove_directories(const FileContext& context, Request& request) {
  return remove_each(context, request, [](const std::string& path) { return sys::remove_tree(AT_FDCWD, path); });
}

// --- POST /files/permissions, POST /directories

Result<void> change_permission(const std::string& path, const Permission& permission) {
  auto ok = apply_permission(path, permission);
  // Missing is a 500 here.
  if (!ok) ok.error().code = Code::Internal;
  return ok;
}

net::awaitable<Result<Response>> with_permissions(const FileContext& context, Request& request,
                                                  Result<void> (*apply)(const std::string&, const Permission&)) {
  auto body = co_await json_body(request);
  if (!body) co_return Failure(body.error());
  auto wanted = api::decode_path_permissions(*body);
  if (!wanted) co_return Failure(wanted.error());
  auto done = co_await context.pool.run([&]() -> Result<void> {
    const OwnerNames names(context.owners);
    for (const auto& [given, permission] : *wanted) {
      auto path = context.resolve(given);
      if (!path) return Failure(path.error());
      auto resolved = resolve_permission(permission, names);
      if (!resolved) return Failure(resolved.error());
      if (auto ok = apply(*path, *resolved); !ok) return ok;
    }
    return {};
  });
  if (!done) co_return Failure(done.error());
  co_return http::empty_response();
}

net::awaitable<Result<Response>> change_permissions(const FileContext& context, Request& request) {
  return with_permissions(context, request, &change_permission);
}

net::awaitable<Result<Response>> make_each_directory(const FileContext& context, Request& request) {
  return with_permissions(context, request, &make_directory);
}

// --- POST /files/mv

net::awaitable<Result<Response>> move_files(const FileContext& context, Request& request) {
  auto body = co_await json_body(request);
  if (!body) co_return Failure(body.error());
  auto moves = api::decode_moves(*body);
  if (!moves) co_return Failure(moves.error());
  auto done = co_await context.pool.run([&]() -> Result<void> {
    for (const auto& [given_source, given_destination] : *moves) {
      auto source = context.resolve(given_source);
      if (!source) return Failure(source.error());
      auto destination = context.resolve(given_destination);
      if (!destination) return Failure(destination.error());
      if (auto ok = move_path(*source, *destination); !ok) return ok;
    }
    return {};
  });
  if (!done) co_return Failure(done.error());
  co_return http::empty_response();
}

// --- POST /files/replace

net::awaitable<Result<Response>> replace_contents(const FileContext& context, Request& request) {
  auto body = co_await json_body(request);
  if (!body) co_return Failure(body.error());
  auto wanted = api::decode_replacements(*body);
  if (!wanted) co_return Failure(wanted.error());
  auto counts = co_await context.pool.run([&]() -> Result<std::string> {
    std::string json = "{";
    for (const auto& [given, old_text, new_text] : *wanted) {
      auto path = context.resolve(given);
      if (!path) return Failure(path.error());
      auto count = replace_in_file(*path, old_text, new_text);
      if (!count) return Failure(count.error());
      if (json.size() > 1) json += ',';
      append_json_string(json, given);
      json += R"(:{"replacedCount":)" + std::to_string(*count) + "}";
    }
    json += '}';
    return json;
  });
  if (!counts) co_return Failure(counts.error());
  const bool verbose = http::Query::parse(request.query()).get("verbose") == "true";
  // Not an empty body otherwise: one of the generated clients stumbles over it.
  co_return http::json_response(200, verbose ? std::move(*counts) : "{}");
}

// --- GET /directories/list, GET /files/search

net::awaitable<Result<Response>> list_directory(const FileContext& context, Request& request) {
  const http::Query query = http::Query::parse(request.query());
  auto path = required_path(context, query);
  if (!path) co_return Failure(path.error());
  std::int64_t depth = 1;
  if (const std::string_view text = query.get("depth"); !text.empty()) {
    depth = parse_number<std::int64_t>(text).value_or(-1);
    if (depth < 0) co_return fail(Code::InvalidRequest, "depth: expected an integer >= 0");
  }
  const auto levels = static_cast<std::uint32_t>(std::min<std::int64_t>(depth, UINT32_MAX));
  co_return co_await listing_response(
      context.pool, [&owners = context.owners, path = *path, levels] { return Listing::list(path, levels, owners); });
}

net::awaitable<Result<Response>> search_files(const FileContext& context, Request& request) {
  const http::Query query = http::Query::parse(request.query());
  auto path = required_path(context, query);
  if (!path) co_return Failure(path.error());
  co_return co_await listing_response(
      context.pool, [&owners = context.owners, path = *path, pattern = std::string(query.get("pattern"))] {
        return Listing::search(path, pattern, owners);
      });
}

}  // namespace

void add_file_routes(http::Router& router, const FileContext& context) {
  // Not the daemon's database: a request of a user who may not read /etc/passwd would empty it for all users.
  const auto owners = std::make_shared<OwnerDatabase>();
  const auto add = [&](std::string_view method, const std::string& path, const FileHandler& handle) {
    router.add(method, path, [&context, handle](Request& request) { return handle(context, request); });
    router.add(method, "/v1/filesystem/{uid}/{gid}" + path,
               [&context, handle, owners](Request& request) -> net::awaitable<Response> {
                 const auto own = context_of(context, request, *owners);
                 if (!own) co_return file_problem(own.error());
                 co_return co_await handle(*own, request);
               });
  };
  add("GET", "/files/info", handler(info));
  add("DELETE", "/files", handler(remove_files));
  add("POST", "/files/permissions", handler(change_permissions));
  add("POST", "/files/mv", handler(move_files));
  add("POST", "/files/replace", handler(replace_contents));
  add("GET", "/files/search", handler(search_files));
  add("GET", "/files/download", download_file);
  add("POST", "/files/upload", upload_files);
  add("GET", "/directories/list", handler(list_directory));
  add("POST", "/directories", handler(make_each_directory));
  add("DELETE", "/directories", handler(remove_directories));
  add("GET", "/directories/archive", download_archive);
  add("POST", "/directories/archive", upload_archive);
}

}  // namespace osb::execd
