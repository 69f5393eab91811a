// Data analysis in a sandbox: the numbers come back as text, the plot as a picture. The image needs numpy and
// matplotlib, which opensandbox/code-interpreter has.
//
//   data_analysis [IMAGE [FILE.png]]
#include <cstdio>
#include <fstream>
#include <opensandbox/opensandbox.h>
#include <string>

namespace os = opensandbox;

static int complain(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

// Results carry pictures as base64.
static std::string decoded(const std::string& base64) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : base64) {
    const auto digit = digits.find(c);
    if (digit == std::string::npos) continue;
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return out;
}

int main(int argc, char** argv) {
  const auto client = os::Client::open();
  if (!client) return complain(client.error().to_string());
  const auto sandbox = os::Sandbox::create(*client, {.image = argc > 1 ? argv[1] : "opensandbox/code-interpreter"});
  if (!sandbox) return complain(sandbox.error().to_string());
  const auto python = sandbox->code().create_context("python");
  if (!python) return complain(python.error().to_string());

  const char* cells[] = {
      "import numpy\ndays = numpy.arange(1, 31)\nvisits = 100 + 7 * days + days * 37 % 23",
      "'%.2f visits a day' % numpy.polyfit(days, visits, 1)[0]",
      "import matplotlib.pyplot as plt\nplt.plot(days, visits, 'o')\nplt.xlabel('day')\nplt.show()",
  };
  for (const char* cell : cells) {
    const auto run = sandbox->code().run(cell, {.context = *python});
    if (!run) return complain(run.error().to_string());
    if (run->error) return complain(run->error->name + ": " + run->error->value);
    for (const auto& result : run->results) {
      if (const auto picture = result.find("image/png"); picture != result.end()) {
        const std::string file = argc > 2 ? argv[2] : "plot.png";
        std::ofstream(file, std::ios::binary) << decoded(picture->second);
        std::printf("plot: %s\n", file.c_str());
      } else if (const auto text = result.find("text/plain"); text != result.end()) {
        std::printf("growth: %s\n", text->second.c_str());
      }
    }
  }
  if (const auto killed = sandbox->kill(); !killed) return complain(killed.error().to_string());
}
