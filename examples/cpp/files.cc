// Files in, files out, a whole directory.
#include <cstdio>
#include <filesystem>
#include <fstream>
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
  const os::Files files = sandbox->files();

  if (const auto ok = files.write("/data/file.txt", "one\ntwo\nthree\n", {.mode = 644}); !ok)
    return complain(ok.error());
  const auto second = files.read("/data/file.txt", {.first_line = 2, .line_count = 1});
  if (!second) return complain(second.error());
  std::printf("second line: %s\n", second->c_str());

  const auto directory = std::filesystem::temp_directory_path() / ("opensandbox-example-" + sandbox->id());
  std::filesystem::create_directories(directory / "in" / "sub");
  std::ofstream(directory / "in" / "sub" / "file") << "from here\n";
  if (const auto ok = files.upload_directory(directory / "in", "/data/tree"); !ok) return complain(ok.error());
  if (const auto ok = sandbox->commands().run("echo from there >> /data/tree/sub/file"); !ok)
    return complain(ok.error());
  if (const auto ok = files.download_directory("/data/tree", directory / "out"); !ok) return complain(ok.error());
  std::ifstream back(directory / "out" / "sub" / "file");
  for (std::string line; std::getline(back, line);) std::printf("back: %s\n", line.c_str());
  std::filesystem::remove_all(directory);

  const auto listed = files.list("/data");
  if (!listed) return complain(listed.error());
  for (const auto& info : *listed) std::printf("%s %s\n", info.type.c_str(), info.path.c_str());

  if (const auto killed = sandbox->kill(); !killed) return complain(killed.error());
}
