// A sandbox, a command in it, a file out of it. OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY say where the server is;
// the first argument names the image.
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

  const auto run = sandbox->commands().run("echo hello > /tmp/greeting && uname -s");
  if (!run) return complain(run.error());
  std::printf("%sexit code %d\n", run->stdout_text().c_str(), run->exit_code.value_or(-1));

  const auto text = sandbox->files().read("/tmp/greeting");
  if (!text) return complain(text.error());
  std::printf("the file says %s", text->c_str());

  if (const auto killed = sandbox->kill(); !killed) return complain(killed.error());
}
