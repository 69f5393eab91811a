// Unpacks a layer file into a directory that it makes: what bench/image/run.py compares with tar.

#include <cstdio>
#include <sys/stat.h>

#include "image/layer_unpacker.h"
#include "sys/syscall.h"

int main(int argc, char** argv) {
  using namespace osb;
  if (argc != 3) return std::fprintf(stderr, "usage: %s LAYER DIRECTORY\n", argv[0]), 2;
  const auto layer = sys::open_at(AT_FDCWD, argv[1], O_RDONLY);
  if (!layer || ::mkdir(argv[2], 0755) < 0) return std::perror(argv[2]), 1;
  const auto root = sys::open_at(AT_FDCWD, argv[2], O_RDONLY | O_DIRECTORY);
  if (!root) return std::perror(argv[2]), 1;
  const auto done = image::unpack_layer(image::read_descriptor(layer->get()), root->get(), {});
  if (!done) return std::fprintf(stderr, "%s\n", done.error().message.c_str()), 1;
  return 0;
}
