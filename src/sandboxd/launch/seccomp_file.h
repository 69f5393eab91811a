#pragma once

#include <linux/filter.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

// A seccomp profile in the format of Docker and of OCI runtimes: defaultAction, syscalls with names, action, errnoRet,
// args, includes and excludes. It stands behind the filter that every sandbox has (seccomp_profile.h), so it can forbid
// calls and cannot allow any. Rules that ask for a capability of the host (includes.caps) do not apply here. Names that
// this machine does not know are passed over in rules that allow, and refused in rules that forbid.
//
// Code::InvalidRequest names the place: the line of wrong JSON, "/syscalls/3/action" for the rest.
Result<std::vector<sock_filter>> compile_seccomp_profile(std::string_view json);
// The same for a file, whose name stands in the message.
Result<std::vector<sock_filter>> load_seccomp_profile(const std::string& path);

}  // namespace osb::sandboxd
