#include "sandboxd/launch/seccomp_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <boost/json/stream_parser.hpp>
#include <boost/json/value.hpp>
#include <fmt/format.h>

#include "base/unique_fd.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxFile = 1 << 20;
#if defined(__x86_64__)
constexpr std::string_view kArchitecture = "amd64";
#else
constexpr std::string_view kArchitecture = "arm64";
#endif

Failure wrong(const std::string& where, const std::string& why) {
  return fail(Code::InvalidRequest, where + ": " + why);
}

Result<json::value> parse(std::string_view text) {
  json::stream_parser parser;
  boost::system::error_code error;
  std::size_t read = parser.write_some(text.data(), text.size(), error);
  if (!error && read == text.size()) parser.finish(error);
  if (!error && read == text.size()) return parser.release();
  const auto line = 1 + std::ranges::count(text.substr(0, std::min(read, text.size())), '\n');
  return fail(Code::InvalidRequest, fmt::format("line {}: {}", line, error ? error.message() : "text behind the end"));
}

const json::value* member(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

Result<std::uint64_t> number(const json::object& object, std::string_view name, const std::string& where,
                             std::uint64_t fallback, std::uint64_t most) {
  const json::value* found = member(object, name);
  if (found == nullptr) return fallback;
  boost::system::error_code error;
  const auto value = found->to_number<std::uint64_t>(error);
  if (error || value > most)
    return wrong(where + "/" + std::string(name), fmt::format("not a number from 0 to {}", most));
  return value;
}

Result<std::string> text(const json::object& object, std::string_view name, const std::string& where) {
  const json::value* found = member(object, name);
  if (found == nullptr || !found->is_string()) return wrong(where + "/" + std::string(name), "a string is missing");
  return std::string(found->get_string());
}

Result<std::vector<std::string>> strings(const json::object& object, std::string_view name, const std::string& where) {
  std::vector<std::string> out;
  const json::value* found = member(object, name);
  if (found == nullptr) return out;
  if (!found->is_array()) return wrong(where + "/" + std::string(name), "not a list of strings");
  for (const json::value& each : found->get_array()) {
    if (!each.is_string()) return wrong(where + "/" + std::string(name), "not a list of strings");
    out.emplace_back(each.get_string());
  }
  return out;
}

Result<std::uint32_t> action_of(const json::object& object, std::string_view action, std::string_view errno_name,
                                const std::string& where) {
  auto name = text(object, action, where);
  if (!name) return Failure(name.error());
  auto error = number(object, errno_name, where, EPERM, 4095);
  if (!error) return Failure(error.error());
  const std::map<std::string, std::uint32_t, std::less<>> actions = {
      {"SCMP_ACT_ALLOW", SCMP_ACT_ALLOW},
      {"SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(static_cast<std::uint32_t>(*error))},
      {"SCMP_ACT_KILL", SCMP_ACT_KILL},
      {"SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD},
      {"SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS},
      {"SCMP_ACT_TRAP", SCMP_ACT_TRAP},
      {"SCMP_ACT_LOG", SCMP_ACT_LOG},
  };
  const auto found = actions.find(*name);
  if (found == actions.end())
    return wrong(where + "/" + std::string(action), "'" + *name + "' is not an action that works here");
  return found->second;
}

Result<std::vector<scmp_arg_cmp>> arguments_of(const json::object& rule, const std::string& where) {
  std::vector<scmp_arg_cmp> out;
  const json::value* list = member(rule, "args");
  if (list == nullptr) return out;
  if (!list->is_array()) return wrong(where + "/args", "not a list");
  const std::map<std::string, scmp_compare, std::less<>> operators = {{"SCMP_CMP_NE", SCMP_CMP_NE},
                                                                      {"SCMP_CMP_LT", SCMP_CMP_LT},
                                                                      {"SCMP_CMP_LE", SCMP_CMP_LE},
                                                                      {"SCMP_CMP_EQ", SCMP_CMP_EQ},
                                                                      {"SCMP_CMP_GE", SCMP_CMP_GE},
                                                                      {"SCMP_CMP_GT", SCMP_CMP_GT},
                                                                      {"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ}};
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    const std::string here = fmt::format("{}/args/{}", where, i);
    const json::object* each = list->get_array()[i].if_object();
    if (each == nullptr) return wrong(here, "not an object");
    const auto index = number(*each, "index", here, 0, 5);
    const auto value = number(*each, "value", here, 0, UINT64_MAX),
               second = number(*each, "valueTwo", here, 0, UINT64_MAX);
    const auto name = text(*each, "op", here);
    for (const auto* read : {&index, &value, &second}) {
      if (!*read) return Failure(read->error());
    }
    if (!name) return Failure(name.error());
    const auto compare = operators.find(*name);
    if (compare == operators.end()) return wrong(here + "/op", "'" + *name + "' is not an operator");
    out.push_back({static_cast<unsigned>(*index), compare->second, *value, *second});
  }
  return out;
}

// "4.8" <= the kernel's.
bool kernel_is_at_least(const std::string& wanted) {
  utsname own{};
  ::uname(&own);
  int major = 0, minor = 0, own_major = 0, own_minor = 0;
  if (std::sscanf(wanted.c_str(), "%d.%d", &major, &minor) < 1) return false;
  std::sscanf(own.release, "%d.%d", &own_major, &own_minor);
  return std::pair(own_major, own_minor) >= std::pair(major, minor);
}

// Whether the conditions of a rule hold here.
Result<bool> applies(const json::object& rule, const std::string& where) {
  for (const bool included : {true, false}) {
    const char* name = included ? "includes" : "excludes";
    const json::value* conditions = member(rule, name);
    if (conditions == nullptr) continue;
    const std::string here = where + "/" + name;
    const json::object* object = conditions->if_object();
    if (object == nullptr) return wrong(here, "not an object");
    const auto caps = strings(*object, "caps", here), arches = strings(*object, "arches", here);
    if (!caps) return Failure(caps.error());
    if (!arches) return Failure(arches.error());
    const bool here_too = std::ranges::find(*arches, kArchitecture) != arches->end();
    if (included && (!caps->empty() || (!arches->empty() && !here_too))) return false;
    if (!included && here_too) return false;
    if (member(*object, "minKernel") == nullptr) continue;
    const auto kernel = text(*object, "minKernel", here);
    if (!kernel) return Failure(kernel.error());
    if (kernel_is_at_least(*kernel) != included) return false;
  }
  return true;
}

class Filter {
 public:
  explicit Filter(std::uint32_t fallback)
      : context_(::seccomp_init(fallback), &::seccomp_release), fallback_(fallback) {}

  Result<void> add(const json::value& value, const std::string& where) {
    const json::object* rule = value.if_object();
    if (rule == nullptr) return wrong(where, "not an object");
    auto names = strings(*rule, "names", where);
    if (!names) return Failure(names.error());
    if (const json::value* one = member(*rule, "name"); one != nullptr && one->is_string()) {
      names->emplace_back(one->get_string());
    }
    if (names->empty()) return wrong(where + "/names", "no system call is named");
    const auto action = action_of(*rule, "action", "errnoRet", where);
    if (!action) return Failure(action.error());
    const auto arguments = arguments_of(*rule, where);
    if (!arguments) return Failure(arguments.error());
    const auto applicable = applies(*rule, where);
    if (!applicable) return Failure(applicable.error());
    if (!*applicable || *action == fallback_) return {};
    for (const std::string& name : *names) {
      if (auto added = add_call(name, *action, *arguments, where); !added) return added;
    }
    return {};
  }

  Result<std::vector<sock_filter>> program() const {
    const UniqueFd file(::memfd_create("seccomp", MFD_CLOEXEC));
    if (file.get() < 0) return sys::from_errno("memfd_create", errno);
    if (const int rc = ::seccomp_export_bpf(context_.get(), file.get()); rc < 0) return sys::from_errno("compile", -rc);
    std::vector<sock_filter> out(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)) / sizeof(sock_filter));
    const std::size_t size = out.size() * sizeof(sock_filter);
    if (::pread(file.get(), out.data(), size, 0) != static_cast<ssize_t>(size))
      return sys::from_errno("compile", errno);
    if (out.size() > BPF_MAXINSNS) return fail(Code::InvalidRequest, "longer than the kernel takes");
    return out;
  }

 private:
  Result<void> add_call(const std::string& name, std::uint32_t action, const std::vector<scmp_arg_cmp>& arguments,
                        const std::string& where) {
    const int call = ::seccomp_syscall_resolve_name(name.c_str());
    if (call == __NR_SCMP_ERROR) {
      if (action == SCMP_ACT_ALLOW || action == SCMP_ACT_LOG) return {};
      return wrong(where + "/names", "this machine does not know '" + name + "', so it cannot be forbidden");
    }
    if (call < 0) return {};  // of another architecture
    const int rc = ::seccomp_rule_add_array(context_.get(), action, call, static_cast<unsigned>(arguments.size()),
                                            arguments.data());
    if (rc < 0 && rc != -EEXIST) return wrong(where, name + ": " + std::generic_category().message(-rc));
    return {};
  }

  std::unique_ptr<void, decltype(&::seccomp_release)> context_;
  std::uint32_t fallback_;
};

}  // namespace

Result<std::vector<sock_filter>> compile_seccomp_profile(std::string_view text) {
  const auto parsed = parse(text);
  if (!parsed) return Failure(parsed.error());
  const json::object* profile = parsed->if_object();
  if (profile == nullptr) return wrong("line 1", "not an object");
  const auto fallback = action_of(*profile, "defaultAction", "defaultErrnoRet", "");
  if (!fallback) return Failure(fallback.error());
  Filter filter(*fallback);
  const json::value* rules = member(*profile, "syscalls");
  if (rules == nullptr || !rules->is_array()) return wrong("/syscalls", "a list is missing");
  for (std::size_t i = 0; i < rules->get_array().size(); ++i) {
    if (auto added = filter.add(rules->get_array()[i], fmt::format("/syscalls/{}", i)); !added) {
      return Failure(added.error());
    }
  }
  return filter.program();
}

Result<std::vector<sock_filter>> load_seccomp_profile(const std::string& path) {
  const auto text = sys::read_text(path, kMaxFile);
  if (!text) return Failure(text.error());
  auto program = compile_seccomp_profile(*text);
  if (!program) return with_context(path, program.error());
  return program;
}

}  // namespace osb::sandboxd
