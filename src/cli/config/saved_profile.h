#pragma once

#include <filesystem>
#include <string>

#include "cli/problem.h"

namespace osb::cli {

struct ProfileValues {
  std::string domain;
  std::string api_key;
};

// Writes [profiles.NAME] with address and key into the config file, which is made if it is missing and is its owner's
// only afterwards. NAME is "local", or "local-PORT" where that is the profile of another server. Where the file names
// no other server, the profile becomes the default (connection.profile).
struct SaveOutcome {
  std::string name;
  bool is_default = false;
};
Expected<SaveOutcome> save_profile(const std::filesystem::path& file, const ProfileValues& values);

// Removes the profile, also as the default, if it still has this address and key.
Expected<void> remove_profile(const std::filesystem::path& file, const std::string& name, const ProfileValues& values);

}  // namespace osb::cli
