#include "vault/secret.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace osb::vault {

void wipe(void* memory, std::size_t size) { ::explicit_bzero(memory, size); }

class LockedPages {
 public:
  LockedPages(char* memory, std::size_t size) : memory_(memory), size_(size) {}
  LockedPages(const LockedPages&) = delete;
  LockedPages& operator=(const LockedPages&) = delete;
  ~LockedPages() {
    wipe(memory_, size_);
    ::munmap(memory_, size_);
  }

  static Result<std::shared_ptr<LockedPages>> make(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t size = (bytes + page - 1) / page * page;
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return refused("mmap", size);
    auto pages = std::make_shared<LockedPages>(static_cast<char*>(memory), size);
    // Not mlock, which does nothing under AddressSanitizer.
    if (::mlock2(memory, size, 0) < 0) return refused("mlock2", size);
    // Neither a core file nor a child has them.
    if (::madvise(memory, size, MADV_DONTDUMP) < 0) return refused("MADV_DONTDUMP", size);
    if (::madvise(memory, size, MADV_DONTFORK) < 0) return refused("MADV_DONTFORK", size);
    return pages;
  }

  char* begin() { return memory_; }

 private:
  static Failure refused(const char* call, std::size_t size) {
    const int error = errno;
    return Failure(Error(Code::Unavailable,
                         "no memory for secrets: " + std::string(call) + " of " + std::to_string(size) + " bytes: " +
                             std::generic_category().message(error) + "; raise the limit on locked memory (memlock)",
                         error));
  }

  char* memory_;
  std::size_t size_;
};

// Overwrites its part of the pages when it goes.
struct SecretSlot {
  SecretSlot(std::shared_ptr<LockedPages> in, char* at, std::size_t length)
      : pages(std::move(in)), begin(at), size(length) {}
  SecretSlot(const SecretSlot&) = delete;
  SecretSlot& operator=(const SecretSlot&) = delete;
  ~SecretSlot() { wipe(begin, size); }

  std::shared_ptr<LockedPages> pages;
  char* begin;
  std::size_t size;
};

Result<std::vector<Secret>> Secret::lock(std::span<const std::string_view> values) {
  std::vector<Secret> out;
  std::size_t bytes = 0;
  for (const std::string_view value : values) bytes += value.size();
  if (bytes == 0) return std::vector<Secret>(values.size());
  auto pages = LockedPages::make(bytes);
  if (!pages) return Failure(pages.error());
  char* next = (*pages)->begin();
  out.reserve(values.size());
  for (const std::string_view value : values) {
    std::memcpy(next, value.data(), value.size());
    Secret secret;
    secret.value_ = {next, value.size()};
    secret.slot_ = std::make_shared<const SecretSlot>(*pages, next, value.size());
    out.push_back(std::move(secret));
    next += value.size();
  }
  return out;
}

}  // namespace osb::vault
