// Image names: what is accepted reads back as the same name from both its spellings and is safe in a URL.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/reference.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using osb::image::Reference;
  const auto name = Reference::parse({reinterpret_cast<const char*>(data), size});
  if (!name) return 0;
  for (const auto& text : {name->to_string(), name->familiar()}) {
    const auto again = Reference::parse(text);
    if (!again || *again != *name) std::abort();
  }
  if (name->tag.empty() && !name->digest) std::abort();
  if (name->repository.find_first_of("?#%@: ") != std::string::npos || name->repository.contains("..")) std::abort();
  return 0;
}
