// Sandboxes that are ready before they are needed.
#include <chrono>
#include <cstdio>
#include <opensandbox/opensandbox.h>

namespace os = opensandbox;

static int complain(const os::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main(int argc, char** argv) {
  const auto client = os::Client::open();
  if (!client) return complain(client.error());
  const auto pool = os::SandboxPool::make(
      *client, {.name = "example", .max_idle = 2, .creation = {.image = argc > 1 ? argv[1] : "python:3.12"}});
  if (!pool) return complain(pool.error());
  if (const auto started = (*pool)->start(); !started) return complain(started.error());

  // An idle one if there is one, else a new one; it is ours, so we kill it.
  for (int i = 0; i < 2; ++i) {
    const auto sandbox = (*pool)->acquire(std::chrono::minutes(5));
    if (!sandbox) return complain(sandbox.error());
    const auto run = sandbox->commands().run("echo ready");
    if (!run) return complain(run.error());
    std::printf("%s", run->stdout_text().c_str());
    if (const auto killed = sandbox->kill(); !killed) return complain(killed.error());
  }

  // Idle sandboxes outlive the pool, so that the next process finds them in a shared store. Ours is not shared.
  (*pool)->shutdown();
  const auto released = (*pool)->release_all_idle();
  if (!released) return complain(released.error());
  std::printf("released what was idle\n");
}
