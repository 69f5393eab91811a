#include "execd/isolated/session_files.h"

#include <grp.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "async/blocking_pool.h"
#include "async/signals.h"
#include "execd/file/file_context.h"
#include "execd/file/file_routes.h"
#include "http/middleware.h"
#include "http/router.h"
#include "http/serve_connection.h"

namespace osb::execd {
namespace {

constexpr std::size_t kThreads = 2;

// The paths that the file routes may name.
FileScope scope_of(const SessionSpec& spec) {
  FileScope scope;
  for (const SessionMount& mount : spec.mounts) scope.push_back({mount.path, mount.persist});
  return scope;
}

// The kernel's answer for a read-only mount, in the words of the contract.
http::Handler with_read_only_answer(http::Handler inner) {
  return [inner = std::move(inner)](http::Request& request) -> net::awaitable<http::Response> {
    http::Response response = co_await inner(request);
    const auto* text = std::get_if<std::string>(&response.body);
    if (response.status == 500 && text != nullptr && text->contains("Read-only file system")) {
      co_return http::problem(403, "READ_ONLY", "this part of the session is read-only");
    }
    co_return response;
  };
}

}  // namespace

bool become_session_user(const SessionSpec& spec) {
  if (!spec.uid && !spec.gid) return true;
  const gid_t gid = spec.gid.value_or(spec.uid.value_or(0));
  const uid_t uid = spec.uid.value_or(0);
  return ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0;
}

void serve_session_files(UniqueFd connection, const SessionSpec& spec) {
  if (!become_session_user(spec)) return;
  ignore_sigpipe();
  net::io_context io(1);
  BlockingPool pool(kThreads);
  OwnerDatabase owners;
  const Environment env;
  const FileScope scope = scope_of(spec);
  const FileContext files{pool, owners, env, "/", &scope, spec.reserve};
  http::Router router({"NOT_FOUND", "METHOD_NOT_ALLOWED", "INVALID_REQUEST_BODY"});
  add_file_routes(router, files);
  const http::Handler handler = with_read_only_answer(
      http::with_fence([&](http::Request& request) { return router.dispatch(request); }, "RUNTIME_ERROR"));
  net::co_spawn(io, http::serve_connection(std::move(connection), handler), [](std::exception_ptr) {});
  io.run();
}

}  // namespace osb::execd
