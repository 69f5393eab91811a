#include "sandboxd/launch/seccomp_file.h"

#include <cerrno>
#include <functional>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kernel/seccomp_policy.h"

namespace osb::sandboxd {
namespace {

// The result of `call` under the profile, in a process of its own.
int under(const char* profile, const std::function<int()>& call) {
  const auto program = compile_seccomp_profile(profile);
  EXPECT_TRUE(program) << program.error().message;
  if (!program) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (kernel::install_seccomp(*program) != 0) ::_exit(99);
    ::_exit(call());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int make_directory() { return ::mkdir("/proc/no", 0700) < 0 ? errno : 0; }

TEST(SeccompFile, RulesAreEnforced) {
  EXPECT_EQ(under(R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[]})", make_directory), ENOENT) << "the kernel's own";
  EXPECT_EQ(under(R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":
            [{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":38}]})",
                  make_directory),
            ENOSYS);
  EXPECT_EQ(under(R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":
            [{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","args":[
              {"index":1,"value":448,"op":"SCMP_CMP_EQ"}]}]})",
                  make_directory),
            EPERM)
      << "mode 0700";
  EXPECT_EQ(under(R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":
            [{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","args":[
              {"index":1,"value":449,"op":"SCMP_CMP_EQ"}]}]})",
                  make_directory),
            ENOENT);
  EXPECT_EQ(under(R"({"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,"archMap":[],"syscalls":
            [{"names":["exit_group","exit","no_such_call"],"action":"SCMP_ACT_ALLOW"}]})",
                  make_directory),
            EPERM);
}

TEST(SeccompFile, ConditionsOfRulesHoldOrNot) {
  const auto with = [](const std::string& conditions) {
    const std::string profile =
        R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO",)" +
        conditions + "}]}";
    return under(profile.c_str(), make_directory);
  };
  EXPECT_EQ(with(R"("includes":{"minKernel":"4.8"})"), EPERM);
  EXPECT_EQ(with(R"("includes":{"minKernel":"99.0"})"), ENOENT);
  EXPECT_EQ(with(R"("excludes":{"minKernel":"99.0"})"), EPERM);
  EXPECT_EQ(with(R"("includes":{"caps":["CAP_SYS_ADMIN"]})"), ENOENT);
  EXPECT_EQ(with(R"("excludes":{"caps":["CAP_SYS_ADMIN"]})"), EPERM);
  EXPECT_EQ(with(R"("includes":{"arches":["s390"]})"), ENOENT);
  EXPECT_EQ(with(R"("includes":{"arches":["amd64","arm64"]})"), EPERM);
}

TEST(SeccompFile, AMistakeIsNamedByItsPlace) {
  const std::pair<const char*, const char*> rows[] = {
      {"{\n\"defaultAction\": oops}", "line 2: "},
      {"{}{}", "line 1: "},
      {"[]", "line 1: not an object"},
      {"{}", "/defaultAction: a string is missing"},
      {R"({"defaultAction":"SCMP_ACT_NOTIFY","syscalls":[]})", "/defaultAction: 'SCMP_ACT_NOTIFY' is not"},
      {R"({"defaultAction":"SCMP_ACT_ALLOW"})", "/syscalls: a list is missing"},
      {R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"]}]})", "/syscalls/0/action: "},
      {R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"action":"SCMP_ACT_ERRNO"}]})",
       "/syscalls/0/names: no system call"},
      {R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdri"],"action":"SCMP_ACT_ERRNO"}]})",
       "/syscalls/0/names: this machine does not know 'mkdri'"},
      {R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","args":[{"index":6,"op":"SCMP_CMP_EQ"}]}]})",
       "/syscalls/0/args/0/index: not a number from 0 to 5"},
      {R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"op":"IS"}]}]})",
       "/syscalls/0/args/0/op: 'IS' is not an operator"},
  };
  for (const auto& [profile, message] : rows) {
    const auto compiled = compile_seccomp_profile(profile);
    ASSERT_FALSE(compiled) << profile;
    EXPECT_EQ(compiled.error().code, Code::InvalidRequest);
    EXPECT_TRUE(compiled.error().message.starts_with(message)) << compiled.error().message;
  }
  EXPECT_EQ(load_seccomp_profile("/no/such/file").error().code, Code::NotFound);
}

}  // namespace
}  // namespace osb::sandboxd
