#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <boost/json/memory_resource.hpp>

#include "vault/secret.h"

namespace osb::vault {

// Memory of a JSON value with secrets in it: overwritten when it is given back. Boost.JSON gives some strings back with
// another size than it took, so the size stands in front of each block. It outlives the value.
class WipingResource final : public boost::json::memory_resource {
  static constexpr std::size_t kFront = alignof(std::max_align_t);
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  void* do_allocate(std::size_t bytes, std::size_t align) override {
    if (align > kFront || bytes > kMost) throw std::bad_alloc();
    char* block = static_cast<char*>(::operator new(kFront + bytes));
    std::memcpy(block, &bytes, sizeof bytes);
    return block + kFront;
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override {
    char* block = static_cast<char*>(memory) - kFront;
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    wipe(block, kFront + bytes);
    ::operator delete(block);
  }
  bool do_is_equal(const boost::json::memory_resource& other) const noexcept override { return this == &other; }
};

// A string that is overwritten when it goes.
struct WipedString {
  explicit WipedString(std::string given = {}) : text(std::move(given)) {}
  WipedString(const WipedString&) = delete;
  WipedString& operator=(const WipedString&) = delete;
  ~WipedString() { wipe(text.data(), text.size()); }
  std::string text;
};

}  // namespace osb::vault
