// Coroutines: three sandboxes at the same time on one thread.
#include <cstdio>
#include <opensandbox/async.h>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

namespace os = opensandbox;

static int failures = 0;

static os::async::Task<void> work(os::async::Client client, std::string image, int number) {
  auto sandbox = co_await os::async::Sandbox::create(client, {.image = image});
  if (!sandbox) co_return os::Failure(sandbox.error());
  auto run = co_await sandbox->commands().run("echo number " + std::to_string(number));
  if (run) std::printf("%s", run->stdout_text().c_str());
  auto killed = co_await sandbox->kill();
  if (!run) co_return os::Failure(run.error());
  co_return killed;
}

int main(int argc, char** argv) {
  boost::asio::io_context io(1);
  const auto client = os::async::Client::open(io.get_executor());
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().to_string().c_str());
    return 1;
  }
  for (int i = 1; i <= 3; ++i) {
    boost::asio::co_spawn(io, work(*client, argc > 1 ? argv[1] : "python:3.12", i),
                          [](std::exception_ptr, const os::Result<void>& result) {
                            if (result) return;
                            std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
                            ++failures;
                          });
  }
  io.run();
  return failures == 0 ? 0 : 1;
}
