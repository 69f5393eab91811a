#pragma once

#include <string_view>

namespace osb::config::texts {

// Ready to use. The zh texts have the same values with comments in Chinese.
extern const std::string_view kNative;
extern const std::string_view kDocker;
extern const std::string_view kDockerZh;
extern const std::string_view kKubernetes;
extern const std::string_view kKubernetesZh;

}  // namespace osb::config::texts
