#include "kernel/seccomp_policy.h"

#include <cstddef>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string_view>
#include <sys/syscall.h>

#include <fmt/format.h>

#include "sys/clone.h"

namespace osb::kernel {
namespace {

using sys::raw;

using Program = std::vector<sock_filter>;

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kForeignNumbers = 0x4000'0000;  // x32: the same architecture word, this bit in the number
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kForeignNumbers = 0;
#else
constexpr std::uint32_t kArchitecture = 0;
constexpr std::uint32_t kForeignNumbers = 0;
#endif

constexpr std::uint32_t kDefault = SECCOMP_RET_ERRNO | ENOSYS;

// Calls newer than the libseccomp we build with. From 424 on, every architecture has the same numbers.
struct NewerCall {
  std::string_view name;
  std::uint32_t number;
};
constexpr NewerCall kNewer[] = {
    {"futex_waitv", 449}, {"cachestat", 451},  {"fchmodat2", 452},     {"map_shadow_stack", 453},
    {"futex_wake", 454},  {"futex_wait", 455}, {"futex_requeue", 456}, {"mseal", 462},
    {"setxattrat", 463},  {"getxattrat", 464}, {"listxattrat", 465},   {"removexattrat", 466},
};

std::optional<std::uint32_t> number_of(const char* name) {
  const int known = ::seccomp_syscall_resolve_name(name);
  if (known >= 0) return static_cast<std::uint32_t>(known);
  for (const NewerCall& call : kNewer) {
    if (call.name == name) return call.number;
  }
  return std::nullopt;  // also those (negative numbers) that exist on other architectures only
}

sock_filter load(std::size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
sock_filter answer(std::uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }

std::size_t argument_offset(const SeccompPolicy::Argument& argument) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half comes first");
  return offsetof(seccomp_data, args) + argument.index * sizeof(std::uint64_t) +
         (argument.upper ? sizeof(std::uint32_t) : 0);
}

struct Condition {
  std::span<const SeccompPolicy::Argument> all_of;
  std::uint32_t action;
};

// Answers what the first condition that holds says; goes on behind its end when none does. Conditions that begin with
// the same argument share the question: the kernel's work at each start of a sandbox grows with the program.
Program answer_first(std::span<const Condition> conditions) {
  Program out;
  const SeccompPolicy::Argument* loaded = nullptr;  // what the accumulator holds, masked
  while (!conditions.empty()) {
    const Condition first = conditions.front();
    if (first.all_of.empty()) {
      out.push_back(answer(first.action));
      return out;
    }
    const SeccompPolicy::Argument& wanted = first.all_of.front();
    std::vector<Condition> group;
    while (!conditions.empty() && !conditions.front().all_of.empty() && conditions.front().all_of.front() == wanted) {
      group.push_back({conditions.front().all_of.subspan(1), conditions.front().action});
      conditions = conditions.subspan(1);
    }
    if (loaded == nullptr || loaded->index != wanted.index || loaded->mask != wanted.mask ||
        loaded->upper != wanted.upper) {
      out.push_back(load(argument_offset(wanted)));
      if (wanted.mask != SeccompPolicy::kWhole) out.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, wanted.mask));
    }
    const Program body = answer_first(group);
    if (body.size() <= 255) {  // conditional jumps have eight bits
      out.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted.value, 0, static_cast<std::uint8_t>(body.size())));
    } else {
      out.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted.value, 1, 0));
      out.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(body.size())));
    }
    out.insert(out.end(), body.begin(), body.end());
    loaded = body.size() == 1 ? &wanted : nullptr;  // a plain answer loads nothing
  }
  return out;
}

// One instruction for each different answer, at the end. As it was when that is too far to jump.
Program with_shared_answers(const Program& program) {
  const auto answers = [](const sock_filter& instruction) { return instruction.code == (BPF_RET | BPF_K); };
  std::map<std::uint32_t, std::size_t> place_of_answer;
  std::vector<std::size_t> place(program.size());  // in the new program
  std::size_t size = 0;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (!answers(program[i])) place[i] = size++;
  }
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (!answers(program[i])) continue;
    const auto [answer, added] = place_of_answer.try_emplace(program[i].k, size);
    if (added) ++size;
    place[i] = answer->second;
  }
  Program out(size);
  for (const auto& [action, at] : place_of_answer) out[at] = answer(action);
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (answers(program[i])) continue;
    sock_filter instruction = program[i];
    const auto distance = [&](std::size_t target) { return place[target] - place[i] - 1; };
    if (BPF_CLASS(instruction.code) != BPF_JMP) {
      if (distance(i + 1) != 0) return program;  // goes on to an answer, and cannot jump there
    } else if (BPF_OP(instruction.code) == BPF_JA) {
      instruction.k = static_cast<std::uint32_t>(distance(i + 1 + instruction.k));
    } else {
      const std::size_t yes = distance(i + 1 + instruction.jt), no = distance(i + 1 + instruction.jf);
      if (yes > 255 || no > 255) return program;
      instruction.jt = static_cast<std::uint8_t>(yes);
      instruction.jf = static_cast<std::uint8_t>(no);
    }
    out[place[i]] = instruction;
  }
  return out;
}

// Numbers from `first` to the next range's share one answer.
struct Range {
  std::uint32_t first;
  Program body;  // ends in an answer on every path
};

// A binary search with `number` in the accumulator. All jumps are relative, so parts can be put together as they are.
Program search(std::span<const Range> ranges) {
  if (ranges.size() == 1) return ranges.front().body;
  const std::size_t half = ranges.size() / 2;
  const Program below = search(ranges.first(half)), above = search(ranges.subspan(half));
  Program out;
  if (below.size() <= 255) {  // conditional jumps have eight bits
    out.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, static_cast<std::uint8_t>(below.size()), 0));
  } else {
    out.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, 0, 1));
    out.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(below.size())));
  }
  out.insert(out.end(), below.begin(), below.end());
  out.insert(out.end(), above.begin(), above.end());
  return out;
}

}  // namespace

SeccompPolicy::Call* SeccompPolicy::find(const char* name) {
  const auto number = number_of(name);
  return number ? &calls_.try_emplace(*number, Call{{}, kDefault}).first->second : nullptr;
}

SeccompPolicy& SeccompPolicy::allow(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (Call* call = find(name)) call->otherwise = SECCOMP_RET_ALLOW;
  }
  return *this;
}

SeccompPolicy& SeccompPolicy::deny(std::initializer_list<const char*> names, int error) {
  for (const char* name : names) {
    if (Call* call = find(name)) call->otherwise = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  }
  return *this;
}

SeccompPolicy& SeccompPolicy::allow_if(const char* name, std::initializer_list<Argument> all_of) {
  if (Call* call = find(name)) call->rules.push_back({all_of, SECCOMP_RET_ALLOW});
  return *this;
}

SeccompPolicy& SeccompPolicy::deny_if(const char* name, std::initializer_list<Argument> all_of, int error) {
  if (Call* call = find(name)) {
    call->rules.push_back({all_of, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)});
  }
  return *this;
}

Result<std::vector<sock_filter>> SeccompPolicy::program() const {
  if (kArchitecture == 0) return fail(Code::Unsupported, "seccomp: this architecture has no profile");

  const auto body_of = [](const Call& call) {
    std::vector<Condition> conditions;
    for (const Rule& rule : call.rules) conditions.push_back({rule.all_of, rule.action});
    conditions.push_back({{}, call.otherwise});
    return answer_first(conditions);
  };

  std::vector<Range> ranges{{0, {answer(kDefault)}}};
  const auto same_answer = [](const Program& a, const Program& b) {
    return a.size() == 1 && b.size() == 1 && a[0].k == b[0].k;
  };
  const auto begin_range = [&](std::uint32_t first, Program body) {
    if (same_answer(ranges.back().body, body)) return;
    if (ranges.back().first == first) {
      ranges.back().body = std::move(body);
    } else {
      ranges.push_back({first, std::move(body)});
    }
  };
  for (auto it = calls_.begin(); it != calls_.end(); ++it) {
    begin_range(it->first, body_of(it->second));
    const auto next = std::next(it);
    if (next == calls_.end() || next->first != it->first + 1) begin_range(it->first + 1, {answer(kDefault)});
  }
  if (kForeignNumbers) {
    begin_range(kForeignNumbers, {answer(SECCOMP_RET_KILL_PROCESS)});
    begin_range(0x8000'0000, {answer(kDefault)});  // negative: just wrong
  }

  Program out{
      load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      answer(SECCOMP_RET_KILL_PROCESS),
      load(offsetof(seccomp_data, nr)),
  };
  const Program rest = search(ranges);
  out.insert(out.end(), rest.begin(), rest.end());
  out = with_shared_answers(out);
  if (out.size() > BPF_MAXINSNS) {
    return fail(Code::Internal, fmt::format("seccomp: {} instructions, the kernel takes {}", out.size(), BPF_MAXINSNS));
  }
  return out;
}

OSB_IN_CHILD int install_seccomp(std::span<const sock_filter> program) noexcept {
  const sock_fprog descriptor{static_cast<unsigned short>(program.size()), const_cast<sock_filter*>(program.data())};
  return raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &descriptor) == 0 ? 0 : errno;
}

}  // namespace osb::kernel
