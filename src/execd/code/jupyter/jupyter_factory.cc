#include "execd/code/jupyter/jupyter_factory.h"

#include <utility>

#include "execd/code/jupyter/jupyter_runner.h"

namespace osb::execd::jupyter {

JupyterFactory::JupyterFactory(const net::any_io_executor& executor, JupyterServer& server, TaskGroup& tasks,
                               std::string language)
    : executor_(executor), server_(server), tasks_(tasks), language_(std::move(language)) {}

Result<std::shared_ptr<CodeRunner>> JupyterFactory::start(const Settings& settings) {
  if (!settings.envs.empty()) {
    return fail(Code::InvalidRequest,
                "/envs: kernels of a Jupyter server have the variables of that server; set them in the code, or when "
                "the sandbox is created");
  }
  return JupyterRunner::start(executor_, server_, tasks_, language_, settings.cwd);
}

Result<void> JupyterFactory::takes(const RunSettings& settings) const {
  if (settings.empty()) return {};
  return fail(Code::InvalidRequest,
              "/cwd and /envs: kernels of a Jupyter server take neither for a run; set them in the code");
}

}  // namespace osb::execd::jupyter
