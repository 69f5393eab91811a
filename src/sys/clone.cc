#include "sys/clone.h"

#include <cstddef>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osb::sys {

AllSignalsBlocked::AllSignalsBlocked() {
  const KernelSigset all = ~KernelSigset{0};
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
}

AllSignalsBlocked::~AllSignalsBlocked() {
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
}

OSB_IN_CHILD long call_clone3(clone_args& args, void (*fn)(void*), void* argument) {
#if defined(__x86_64__)
  register void (*child)(void*) __asm__("r8") = fn;
  register void* child_argument __asm__("r9") = argument;
  long result = SYS_clone3;
  __asm__ volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"  // the end of the chain of frames
      "movq %%r9, %%rdi\n\t"
      "callq *%%r8\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), "r"(child), "r"(child_argument)
      : "rcx", "r11", "memory", "cc");
  return result;
#elif defined(__aarch64__)
  register long result __asm__("x0") = reinterpret_cast<long>(&args);
  register std::size_t size __asm__("x1") = sizeof args;
  register void (*child)(void*) __asm__("x2") = fn;
  register void* child_argument __asm__("x3") = argument;
  register long number __asm__("x8") = SYS_clone3;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"  // the end of the chain of frames
      "mov x30, xzr\n\t"
      "mov x0, x3\n\t"
      "blr x2\n\t"
      "brk #1\n"
      "1:"
      : "+r"(result)
      : "r"(size), "r"(child), "r"(child_argument), "r"(number)
      : "memory", "cc");
  return result;
#else
#error "clone3 is not written for this architecture yet"
#endif
}

}  // namespace osb::sys
