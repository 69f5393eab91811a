#pragma once

#include <optional>
#include <string>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "execd/command/interruptible.h"
#include "http/router.h"

namespace osb::execd {

struct CodeContext {
  std::string id;
  std::string language;
  std::string cwd;  // empty: not given
};

// Runs code in kernels that keep their state: what a code interpreter has to offer to the routes. Methods answer with
// the contract's reasons in their errors (CONTEXT_NOT_FOUND, RUNTIME_ERROR). interrupt() takes the id of a context.
class CodeRunner : public Interruptible {
 public:
  // Empty language or id: the contract's defaults. The answer is an event stream, or a problem.
  virtual net::awaitable<http::Response> run(std::string code, std::string context_id, std::string language) = 0;

  virtual net::awaitable<Result<CodeContext>> create_context(std::string language, std::string cwd) = 0;
  virtual net::awaitable<Result<std::vector<CodeContext>>> list_contexts(std::string language) = 0;
  virtual net::awaitable<Result<CodeContext>> find_context(std::string id) = 0;
  virtual net::awaitable<Result<void>> delete_context(std::string id) = 0;
  virtual net::awaitable<Result<void>> delete_contexts(std::string language) = 0;
};

// POST /code, /code/context and /code/contexts. Without a runner (null) they answer 501 NOT_SUPPORTED. DELETE /code is
// the same as DELETE /command and belongs to whoever knows what can be interrupted. The runner outlives the router.
void add_code_routes(http::Router& router, CodeRunner* runner);

}  // namespace osb::execd
