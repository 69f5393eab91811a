#include "sandboxd/sandbox/image_config_text.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace osb::sandboxd {

std::string encode_image_config(const image::ImageConfig& config) {
  namespace json = boost::json;
  const auto list = [](const std::vector<std::string>& strings) { return json::array(strings.begin(), strings.end()); };
  json::array diff_ids;
  for (const image::Digest& digest : config.diff_ids) diff_ids.push_back(json::string(digest.to_string()));
  json::object labels;
  for (const auto& [key, value] : config.labels) labels[key] = value;
  const image::Platform platform = config.platform.os.empty() ? image::host_platform() : config.platform;
  json::object out{{"os", platform.os},
                   {"architecture", platform.architecture},
                   {"config", json::object{{"Env", list(config.env)},
                                           {"Entrypoint", list(config.entrypoint)},
                                           {"Cmd", list(config.cmd)},
                                           {"User", config.user},
                                           {"WorkingDir", config.working_dir},
                                           {"StopSignal", config.stop_signal},
                                           {"Labels", std::move(labels)}}},
                   {"rootfs", json::object{{"type", "layers"}, {"diff_ids", std::move(diff_ids)}}}};
  if (!platform.variant.empty()) out["variant"] = platform.variant;
  return json::serialize(out);
}

}  // namespace osb::sandboxd
