#include "api/lifecycle_volume.h"

#include <algorithm>
#include <set>

#include "api/lifecycle_error.h"
#include "base/json_escape.h"

namespace osb::api {
namespace {

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$
bool is_dns_label(std::string_view text, std::size_t max) {
  if (text.empty() || text.size() > max || !is_lower(text.front()) || !is_lower(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return is_lower(c) || c == '-'; });
}

// ^\d+(\.\d+)?(Ki|Mi|Gi|Ti|Pi|Ei)?$
bool is_storage_size(std::string_view text) {
  for (const std::string_view unit : {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}) {
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      break;
    }
  }
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const auto point = text.find('.');
  if (point == std::string_view::npos) return digits(text);
  return digits(text.substr(0, point)) && digits(text.substr(point + 1));
}

void refuse_nul(ObjectReader& r, std::string_view name, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) r.reject(name, "must not contain a NUL byte");
}

bool has_drive(std::string_view path) {
  return path.size() >= 3 && is_letter(path[0]) && path[1] == ':' && (path[2] == '/' || path[2] == '\\');
}

HostVolume read_host(ObjectReader& r) {
  HostVolume host{r.required_string("path")};
  refuse_nul(r, "path", host.path);
  if (!host.path.starts_with('/') && !has_drive(host.path)) r.reject("path", "must be absolute");
  return host;
}

PvcVolume read_pvc(ObjectReader& r) {
  PvcVolume pvc;
  pvc.claim_name = r.required_string("claimName");
  if (!is_dns_label(pvc.claim_name, 253)) {
    r.reject("claimName", "must have at most 253 of a-z, 0-9 and '-', and not begin or end with '-'");
  }
  pvc.create_if_not_exists = r.optional_bool("createIfNotExists").value_or(true);
  pvc.delete_on_sandbox_termination = r.optional_bool("deleteOnSandboxTermination").value_or(false);
  pvc.storage_class = r.optional_string("storageClass").value_or("");
  if (const auto storage = r.optional_string("storage")) {
    if (!is_storage_size(*storage)) r.reject("storage", "expected a number with Ki, Mi, Gi, Ti, Pi, Ei or no unit");
    pvc.storage = *storage;
  }
  pvc.access_modes = r.string_list("accessModes");
  return pvc;
}

OssfsVolume read_ossfs(ObjectReader& r) {
  OssfsVolume ossfs;
  ossfs.bucket = r.required_string("bucket");
  if (ossfs.bucket.size() < 3 || ossfs.bucket.size() > 63) r.reject("bucket", "must have 3 to 63 characters");
  ossfs.endpoint = r.required_string("endpoint");
  ossfs.version = r.optional_string("version").value_or("2.0");
  if (ossfs.version != "1.0" && ossfs.version != "2.0") r.reject("version", "must be 1.0 or 2.0");
  ossfs.options = r.string_list("options").value_or(std::vector<std::string>());
  ossfs.access_key_id = r.required_string("accessKeyId");
  ossfs.access_key_secret = r.required_string("accessKeySecret");
  for (const auto& [name, text] : {std::pair("bucket", ossfs.bucket),
                                   {"endpoint", ossfs.endpoint},
                                   {"accessKeyId", ossfs.access_key_id},
                                   {"accessKeySecret", ossfs.access_key_secret}}) {
    refuse_nul(r, name, text);
  }
  for (const std::string& option : ossfs.options) refuse_nul(r, "options", option);
  return ossfs;
}

Volume read_volume(ObjectReader& r) {
  Volume volume;
  volume.name = r.required_string("name");
  if (!is_dns_label(volume.name, 63)) {
    r.reject("name", "must have at most 63 of a-z, 0-9 and '-', and not begin or end with '-'");
  }
  volume.mount_path = r.required_string("mountPath");
  refuse_nul(r, "mountPath", volume.mount_path);
  if (!volume.mount_path.starts_with('/')) r.reject("mountPath", "must start with '/'");
  volume.read_only = r.optional_bool("readOnly").value_or(false);
  volume.sub_path = r.optional_string("subPath").value_or("");
  refuse_nul(r, "subPath", volume.sub_path);
  int backends = 0;
  backends += r.object("host", [&](ObjectReader& host) { volume.host = read_host(host); });
  backends += r.object("pvc", [&](ObjectReader& pvc) { volume.pvc = read_pvc(pvc); });
  backends += r.object("ossfs", [&](ObjectReader& ossfs) { volume.ossfs = read_ossfs(ossfs); });
  if (backends != 1) r.reject("", "exactly one of host, pvc and ossfs is needed");
  return volume;
}

std::string with_slashes(std::string_view path) {
  std::string out(path);
  std::ranges::replace(out, '\\', '/');
  return out;
}

// Lexical faults of a host path: "/..", "//" or a '/' at its end, behind the drive.
bool is_normal_host_path(std::string_view raw) {
  const std::string slashed = with_slashes(raw);
  std::string_view path = slashed;
  if (has_drive(path)) path.remove_prefix(2);
  if (path == "/") return true;
  return path.find("/..") == std::string_view::npos && path.find("//") == std::string_view::npos &&
         !path.ends_with('/');
}

bool is_normal_sub_path(std::string_view raw) {
  const std::string slashed = with_slashes(raw);
  std::string_view rest = slashed;
  if (rest.starts_with('/') || has_drive(rest)) return false;
  for (;;) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (part == "..") return false;
    if (part.size() == rest.size()) return true;
    rest.remove_prefix(part.size() + 1);
  }
}

Result<void> check_volume(const Volume& volume, const std::string& where, std::span<const std::string> allowed) {
  if (!volume.sub_path.empty() && !is_normal_sub_path(volume.sub_path)) {
    return refuse(Code::InvalidRequest, reason::kVolumeInvalidSubPath,
                  where + "/subPath: must be relative and without '..'");
  }
  if (volume.host) {
    if (!is_normal_host_path(volume.host->path)) {
      return refuse(Code::InvalidRequest, reason::kVolumeInvalidHostPath,
                    where + "/host/path: must not contain '/..' or '//' nor end with '/'");
    }
    if (!host_path_allowed(volume.host->path, allowed)) {
      return refuse(Code::InvalidRequest, reason::kVolumeHostPathNotAllowed,
                    where + "/host/path: " + in_quotes(volume.host->path) +
                        " is not below a path of [storage] allowed_host_paths");
    }
  }
  if (volume.ossfs) {
    for (const std::string& option : volume.ossfs->options) {
      const auto first = option.find_first_not_of(" \t\r\n");
      if (first == std::string::npos || option[first] == '-') {
        return refuse(Code::InvalidRequest, reason::kVolumeInvalidOssfsOption,
                      where + "/ossfs/options: an option must not be blank nor begin with '-'");
      }
    }
  }
  return {};
}

}  // namespace

std::vector<Volume> read_volumes(ObjectReader& reader) {
  std::vector<Volume> volumes;
  reader.array("volumes", [&](ObjectReader& r) { volumes.push_back(read_volume(r)); });
  return volumes;
}

bool host_path_allowed(std::string_view path, std::span<const std::string> allowed) {
  const auto normal = [](std::string_view raw) {
    std::string out = with_slashes(raw);
    if (has_drive(out) && out[0] >= 'A' && out[0] <= 'Z') out[0] = static_cast<char>(out[0] + ('a' - 'A'));
    while (out.size() > 1 && out.ends_with('/')) out.pop_back();
    return out;
  };
  const std::string wanted = normal(path);
  return std::ranges::any_of(allowed, [&](const std::string& prefix) {
    const std::string root = normal(prefix);
    if (root.empty()) return false;
    if (root == "/") return wanted.starts_with('/');
    return wanted == root || (wanted.starts_with(root) && wanted[root.size()] == '/');
  });
}

Result<void> check_volumes(std::span<const Volume> volumes, std::span<const std::string> allowed_host_paths) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const std::string where = "/volumes/" + std::to_string(i);
    if (!names.insert(volumes[i].name).second) {
      return refuse(Code::InvalidRequest, reason::kVolumeDuplicateName,
                    where + "/name: " + volumes[i].name + " is used twice");
    }
    if (auto ok = check_volume(volumes[i], where, allowed_host_paths); !ok) return ok;
  }
  return {};
}

json::array encode_volumes(std::span<const Volume> volumes, bool with_secrets) {
  json::array out;
  const auto strings = [](const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); };
  for (const Volume& volume : volumes) {
    json::object item{{"name", volume.name}, {"mountPath", volume.mount_path}, {"readOnly", volume.read_only}};
    if (!volume.sub_path.empty()) item["subPath"] = volume.sub_path;
    if (volume.host) item["host"] = {{"path", volume.host->path}};
    if (const auto& pvc = volume.pvc) {
      json::object claim{{"claimName", pvc->claim_name},
                         {"createIfNotExists", pvc->create_if_not_exists},
                         {"deleteOnSandboxTermination", pvc->delete_on_sandbox_termination}};
      if (!pvc->storage_class.empty()) claim["storageClass"] = pvc->storage_class;
      if (!pvc->storage.empty()) claim["storage"] = pvc->storage;
      if (pvc->access_modes) claim["accessModes"] = strings(*pvc->access_modes);
      item["pvc"] = std::move(claim);
    }
    if (const auto& ossfs = volume.ossfs) {
      item["ossfs"] = {{"bucket", ossfs->bucket},
                       {"endpoint", ossfs->endpoint},
                       {"version", ossfs->version},
                       {"options", strings(ossfs->options)},
                       {"accessKeyId", with_secrets ? ossfs->access_key_id : "***"},
                       {"accessKeySecret", with_secrets ? ossfs->access_key_secret : "***"}};
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace osb::api
