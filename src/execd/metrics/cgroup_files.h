#pragma once

#include <map>
#include <memory>
#include <string>

#include "sys/cgroup_stats.h"

namespace osb::execd {

// Opens the files of --cgroup-file for reading, each as open_given() does. A file that cannot be opened is left out and
// logged: execd serves without it. Null without any path.
std::shared_ptr<const sys::CgroupFiles> open_cgroup_files(const std::map<std::string, std::string>& paths);

}  // namespace osb::execd
