// Output as it comes, and a command that is stopped: the handlers run on this thread.
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
  const auto sandbox = os::Sandbox::create(*client, {.image = argc > 1 ? argv[1] : "python:3.12"});
  if (!sandbox) return complain(sandbox.error());

  // The stream is continued by itself if the connection breaks: every line comes once.
  const auto run =
      sandbox->commands().run("for i in 1 2 3; do echo line $i; done; echo done >&2", {.discard_output = true},
                              {.on_stdout = [](const std::string& line) { std::printf("out: %s\n", line.c_str()); },
                               .on_stderr = [](const std::string& line) { std::printf("err: %s\n", line.c_str()); }});
  if (!run) return complain(run.error());

  // Interrupted from its own handler.
  std::string id;
  const auto endless =
      sandbox->commands().run("echo started; sleep 1000", {},
                              {.on_init = [&](const std::string& started) { id = started; },
                               .on_stdout = [&](const std::string&) { (void)sandbox->commands().interrupt(id); }});
  if (!endless) return complain(endless.error());
  std::printf("interrupted: exit code %d\n", endless->exit_code.value_or(0));

  if (const auto killed = sandbox->kill(); !killed) return complain(killed.error());
}
