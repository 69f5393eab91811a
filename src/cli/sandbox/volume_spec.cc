#include "cli/sandbox/volume_spec.h"

#include <filesystem>

namespace osb::cli {
namespace {

std::unexpected<Problem> wrong(const std::string& spec, const std::string& why) {
  return usage_error("Invalid value for '-v': '" + spec + "' " + why + ".",
                     "Write HOST_DIRECTORY:PATH or VOLUME:PATH, with :ro behind it for read-only.");
}

// "~/x" and "./x" as an absolute path.
std::string host_path(const std::string& text, const std::string& home) {
  namespace fs = std::filesystem;
  fs::path path = text;
  if (text == "~" || text.starts_with("~/")) path = home + text.substr(1);
  std::error_code error;
  path = fs::absolute(path, error).lexically_normal();
  std::string out = path.string();
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

Expected<opensandbox::Volume> parse_volume(const std::string& spec, const std::string& home) {
  const std::size_t colon = spec.find(':');
  if (colon == 0 || colon == std::string::npos) return wrong(spec, "names no path in the sandbox");
  const std::string source = spec.substr(0, colon);
  opensandbox::Volume out;
  out.mount_path = spec.substr(colon + 1);
  if (const std::size_t second = out.mount_path.rfind(':'); second != std::string::npos) {
    const std::string mode = out.mount_path.substr(second + 1);
    if (mode != "ro" && mode != "rw") return wrong(spec, "ends with ':" + mode + "', which is neither ro nor rw");
    out.read_only = mode == "ro";
    out.mount_path.resize(second);
  }
  if (!out.mount_path.starts_with('/')) return wrong(spec, "needs an absolute path in the sandbox");
  if (source.starts_with('/') || source.starts_with('.') || source == "~" || source.starts_with("~/")) {
    out.host = opensandbox::HostVolume{.path = host_path(source, home)};
  } else {
    opensandbox::PvcVolume volume;
    volume.claim_name = source;
    volume.create_if_not_exists = true;
    out.pvc = std::move(volume);
  }
  return out;
}

}  // namespace

Expected<std::vector<opensandbox::Volume>> parse_volumes(const std::vector<std::string>& specs,
                                                         const std::string& home) {
  std::vector<opensandbox::Volume> out;
  for (const std::string& spec : specs) {
    auto volume = parse_volume(spec, home);
    if (!volume) return std::unexpected(volume.error());
    volume->name = "v" + std::to_string(out.size());
    out.push_back(std::move(*volume));
  }
  return out;
}

}  // namespace osb::cli
