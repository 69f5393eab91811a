#include "cli/sandbox/create_files.h"

#include "api/json.h"
#include "cli/read_input.h"

namespace osb::cli {
namespace {

void read_pvc(api::ObjectReader& in, opensandbox::PvcVolume& out) {
  out.claim_name = in.required_string("claimName");
  out.create_if_not_exists = in.optional_bool("createIfNotExists");
  out.delete_on_sandbox_termination = in.optional_bool("deleteOnSandboxTermination");
  out.storage_class = in.optional_string("storageClass").value_or("");
  out.storage = in.optional_string("storage").value_or("");
  out.access_modes = in.string_list("accessModes").value_or(std::vector<std::string>());
}

void read_ossfs(api::ObjectReader& in, opensandbox::OssfsVolume& out) {
  out.bucket = in.required_string("bucket");
  out.endpoint = in.required_string("endpoint");
  out.version = in.optional_string("version").value_or("");
  out.options = in.string_list("options").value_or(std::vector<std::string>());
  out.access_key_id = in.optional_string("accessKeyId").value_or("");
  out.access_key_secret = in.optional_string("accessKeySecret").value_or("");
}

opensandbox::Volume read_volume(api::ObjectReader& in) {
  opensandbox::Volume out;
  out.name = in.required_string("name");
  out.mount_path = in.required_string("mountPath");
  out.read_only = in.optional_bool("readOnly").value_or(false);
  out.sub_path = in.optional_string("subPath").value_or("");
  in.object("host", [&](api::ObjectReader& host) { out.host.emplace().path = host.required_string("path"); });
  in.object("pvc", [&](api::ObjectReader& pvc) { read_pvc(pvc, out.pvc.emplace()); });
  in.object("ossfs", [&](api::ObjectReader& ossfs) { read_ossfs(ossfs, out.ossfs.emplace()); });
  if (out.host.has_value() + out.pvc.has_value() + out.ossfs.has_value() != 1) {
    in.reject("", "needs exactly one of host, pvc and ossfs");
  }
  return out;
}

std::vector<int> read_ports(api::ObjectReader& rule) {
  std::vector<int> out;
  const api::json::value* value = rule.find("ports");
  if (value == nullptr) return out;
  const api::json::array* list = value->if_array();
  if (list == nullptr) rule.reject("ports", "must be an array of numbers");
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::int64_t* port = (*list)[i].if_int64();
    if (port == nullptr || *port < 1 || *port > 65535) {
      rule.reject("ports", "must be numbers from 1 to 65535");
      break;
    }
    out.push_back(static_cast<int>(*port));
  }
  return out;
}

}  // namespace

Expected<opensandbox::NetworkPolicy> read_network_policy(const std::string& path) {
  const auto value = read_json_file(path, "network policy");
  if (!value) return failed(value.error());
  if (!value->is_object()) return invalid("The network policy file '" + path + "' must contain a JSON object.");
  opensandbox::NetworkPolicy out;
  api::ObjectReader in(*value, api::kLifecycleReading);
  out.default_action = in.optional_string("defaultAction").value_or("deny");
  in.array("egress", [&](api::ObjectReader& rule) {
    opensandbox::NetworkRule& made = out.egress.emplace_back();
    made.action = rule.required_string("action");
    made.ports = read_ports(rule);
    made.target = made.ports.empty() ? rule.required_string("target") : rule.optional_string("target").value_or("");
  });
  const auto check = [&](const std::string& action, std::string_view where) {
    if (action != "allow" && action != "deny") in.reject(where, "must be allow or deny");
  };
  if (!in.failed()) check(out.default_action, "defaultAction");
  for (const auto& rule : out.egress) {
    if (!in.failed()) check(rule.action, "egress");
  }
  if (auto done = in.finish(); !done) {
    return invalid("The network policy file '" + path + "' is wrong: " + done.error().message + ".");
  }
  return out;
}

Expected<std::vector<opensandbox::Volume>> read_volumes(const std::string& path) {
  const auto value = read_json_file(path, "volumes");
  if (!value) return failed(value.error());
  if (!value->is_array()) return invalid("The volumes file '" + path + "' must contain a JSON array.");
  std::vector<opensandbox::Volume> out;
  const auto done =
      api::read_array(*value, api::kLifecycleReading, [&](api::ObjectReader& in) { out.push_back(read_volume(in)); });
  if (!done) return invalid("The volumes file '" + path + "' is wrong: " + done.error().message + ".");
  return out;
}

}  // namespace osb::cli
