#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

struct ImageUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string home = "/";

  bool operator==(const ImageUser&) const = default;
};

// "", "name", "1000", "name:group", "1000:1000": the user by the passwd and group files of an image, whose layers are
// given top first. A number needs no entry. Empty is root. Code::InvalidRequest names what the image does not have, and
// ids beyond 65535, which no sandbox can map.
Result<ImageUser> find_image_user(std::string_view text, const std::vector<std::string>& layers);

}  // namespace osb::sandboxd
