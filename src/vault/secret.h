#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::vault {

// Overwrites memory in a way that the compiler keeps.
void wipe(void* memory, std::size_t size);

// Overwrites memory before it gives it back.
template <typename T>
struct WipingAllocator {
  using value_type = T;
  WipingAllocator() = default;
  template <typename U>
  WipingAllocator(const WipingAllocator<U>&) {}
  T* allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
  void deallocate(T* memory, std::size_t n) {
    wipe(memory, n * sizeof(T));
    std::allocator<T>().deallocate(memory, n);
  }
  bool operator==(const WipingAllocator&) const { return true; }
};

// Text with a secret in it that lives as long as one request or one change. It leaves no copies behind. There is no way
// to print it by accident.
class SecretText {
 public:
  SecretText() = default;
  explicit SecretText(std::string_view text) { append(text); }
  void append(std::string_view text) { bytes_.insert(bytes_.end(), text.begin(), text.end()); }
  void append(char c) { bytes_.push_back(c); }
  void erase_front(std::size_t n) { bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(n)); }
  void clear() { bytes_ = {}; }
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

 private:
  std::vector<char, WipingAllocator<char>> bytes_;
};

struct SecretSlot;

// A secret that stays: in pages that are never swapped out and are in no core file, overwritten when the last owner
// goes. Secrets that come together share pages. Copies share the bytes.
class Secret {
 public:
  Secret() = default;

  // All or none. Code::Unavailable says which limit is too low.
  static Result<std::vector<Secret>> lock(std::span<const std::string_view> values);

  std::string_view view() const { return value_; }
  bool empty() const { return value_.empty(); }

 private:
  std::string_view value_;
  std::shared_ptr<const SecretSlot> slot_;
};

}  // namespace osb::vault
