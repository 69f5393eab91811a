#include "api/engine_walls.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace osb::api {
namespace {

namespace json = boost::json;

bool is_false(const json::object& info, std::string_view name) {
  const json::value* value = info.if_contains(name);
  return value != nullptr && value->is_bool() && !value->get_bool();
}

}  // namespace

std::vector<std::string> missing_engine_walls(const json::value& info) {
  std::vector<std::string> out;
  const json::object* object = info.if_object();
  if (object == nullptr) return out;
  const json::value* options = object->if_contains("SecurityOptions");
  if (options != nullptr && options->is_array()) {
    // "name=seccomp,profile=default"
    const auto has = [&](std::string_view name) {
      return std::ranges::any_of(options->get_array(), [&](const json::value& each) {
        return each.is_string() && std::string_view(each.get_string()).contains(name);
      });
    };
    if (!has("name=seccomp") || has("profile=unconfined")) {
      out.emplace_back("seccomp: sandboxes may make every system call");
    }
    if (!has("name=apparmor") && !has("name=selinux")) {
      out.emplace_back("AppArmor or SELinux: no second wall behind capabilities and seccomp");
    }
    if (!has("name=userns") && !has("name=rootless")) {
      out.emplace_back(
          "user namespaces (userns-remap): root in a sandbox has the id of the host's root, and all share its counters "
          "(inotify, pending signals, message queues)");
    }
  }
  // Podman isolates by other means, and has the field for compatibility only.
  if (!object->contains("BuildahVersion") && is_false(*object, "BridgeNfIptables")) {
    out.emplace_back(
        "bridge-nf-call-iptables: sandboxes on one bridge reach each other (modprobe br_netfilter, restart the "
        "engine)");
  }
  if (is_false(*object, "PidsLimit")) out.emplace_back("a limit on processes: one sandbox can exhaust the host's");
  if (is_false(*object, "MemoryLimit")) out.emplace_back("a limit on memory: one sandbox can exhaust the host's");
  return out;
}

}  // namespace osb::api
