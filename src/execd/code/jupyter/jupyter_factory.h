#pragma once

#include <string>

#include "async/task_group.h"
#include "execd/code/jupyter/jupyter_server.h"
#include "execd/code/runner_factory.h"

namespace osb::execd::jupyter {

// Kernels of one language of a Jupyter server. Everything given to the constructor outlives it.
class JupyterFactory final : public RunnerFactory {
 public:
  JupyterFactory(const net::any_io_executor& executor, JupyterServer& server, TaskGroup& tasks, std::string language);

  // The kernel's directory is the server's business; variables are refused, because the server has its own.
  Result<std::shared_ptr<CodeRunner>> start(const Settings& settings) override;
  Result<void> takes(const RunSettings& settings) const override;

 private:
  const net::any_io_executor executor_;
  JupyterServer& server_;
  TaskGroup& tasks_;
  const std::string language_;
};

}  // namespace osb::execd::jupyter
