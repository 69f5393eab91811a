#include "execd/file/file_context.h"

namespace osb::execd {
namespace {

Result<void> check_scope(const FileScope& scope, const std::string& path) {
  const FileTree* innermost = nullptr;
  for (const FileTree& tree : scope) {
    const bool inside = path == tree.path || path.starts_with(tree.path + "/");
    if (inside && (innermost == nullptr || tree.path.size() > innermost->path.size())) innermost = &tree;
  }
  if (innermost != nullptr && innermost->visible) return {};
  Error error(Code::InvalidRequest, path + ": not in one of the session's directories that keep files");
  error.reason = "INVALID_REQUEST_BODY";
  return Failure(std::move(error));
}

}  // namespace

Result<std::string> FileContext::resolve(std::string_view path) const {
  auto resolved = expand_path(path, env, cwd);
  if (resolved && !pool.is_daemon()) {
    if (auto ok = refuse_magic_links(*resolved); !ok) return Failure(ok.error());
  }
  if (resolved && scope != nullptr) {
    if (auto ok = check_scope(*scope, *resolved); !ok) return Failure(ok.error());
  }
  if (resolved) return resolved;
  Error error = resolved.error();
  error.code = Code::Internal;
  return Failure(std::move(error));
}

http::Response file_problem(const Error& error) {
  const bool not_found = error.code == Code::NotFound;
  const bool bad_request = error.code == Code::InvalidRequest || error.code == Code::TooLarge;
  const bool unavailable = error.reason == "FILESYSTEM_IDENTITY_UNAVAILABLE";
  const bool full = error.code == Code::Exhausted;
  const int status = not_found ? 404 : bad_request ? 400 : unavailable ? 503 : full ? 507 : 500;
  const char* reason = not_found ? "FILE_NOT_FOUND" : bad_request ? "INVALID_REQUEST_BODY" : "RUNTIME_ERROR";
  return http::problem(status, error.reason.empty() ? reason : error.reason, error.message);
}

}  // namespace osb::execd
