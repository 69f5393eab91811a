// Loaded into linux.uml (LD_PRELOAD). Debian's User-Mode Linux has room for 2,696 bytes of a process's extended
// registers. Processors with AMX have 11 KiB of them, and the host's kernel takes all or nothing: without this library
// such a machine ends with "ptrace set fp regs failed". The registers that do not fit stay as they are; programs in
// there do not use them.

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <linux/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace {

using Ptrace = long (*)(long request, pid_t process, void* address, void* data);

// Not on the stack, which is small in there. The machine has one processor, so one call at a time comes here.
char registers[64 << 10];

long transfer(Ptrace real, long request, pid_t process, void* kind, iovec* part) {
  iovec whole{registers, sizeof registers};
  if (const long failed = real(PTRACE_GETREGSET, process, kind, &whole); failed != 0) return failed;
  const std::size_t size = std::min(whole.iov_len, part->iov_len);
  if (request == PTRACE_GETREGSET) {
    std::memcpy(part->iov_base, registers, size);
    part->iov_len = size;
    return 0;
  }
  std::memcpy(registers, part->iov_base, size);
  return real(PTRACE_SETREGSET, process, kind, &whole);
}

}  // namespace

// <sys/ptrace.h> is not included: it declares this function with a variable list of arguments.
extern "C" long ptrace(long request, pid_t process, void* address, void* data) {
  static const auto real = reinterpret_cast<Ptrace>(::dlsym(RTLD_NEXT, "ptrace"));
  const bool whole_set = request == PTRACE_GETREGSET || request == PTRACE_SETREGSET;
  if (whole_set && address == reinterpret_cast<void*>(NT_X86_XSTATE)) {
    return transfer(real, request, process, address, static_cast<iovec*>(data));
  }
  return real(request, process, address, data);
}
