#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace osb::server {

// The places of the operator's list where templates may be published.
struct PublishPlaces {
  std::vector<std::string> directories;
  std::vector<std::string> registries;  // "registry.example.com", or with the beginning of a repository behind it
  std::filesystem::path registry_auth;  // a config.json as `docker login` writes it; "" means no credentials
  std::filesystem::path scratch;        // a directory of the server's own, for archives on their way to a registry
};

}  // namespace osb::server
