#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/types.h"

namespace opensandbox {

// How the build of a template knows that its sandbox is warm.
struct TemplateReadiness {
  std::string probe = {};                                   // "tcp://127.0.0.1:80", "cmd://..", "" is none
  std::optional<std::chrono::seconds> warmup_seconds = {};  // after that
};

struct CreateTemplateOptions {
  std::string image = {};
  std::string publish = "local://";
  StringMap resource_limits = {};            // cpu, memory, disk; the server has defaults
  std::vector<std::string> entrypoint = {};  // empty: the server's, which keeps the sandbox idle
  StringMap env = {};
  StringMap metadata = {};
  std::optional<TemplateReadiness> readiness = {};
  std::string format = {};  // native, overlaybd; "" is the server's
};

struct Template {
  std::string id = {};
  std::string image = {};
  std::string publish = {};
  StringMap resource_limits = {};
  std::vector<std::string> entrypoint = {};
  StringMap env = {};
  StringMap metadata = {};
  std::optional<TemplateReadiness> readiness = {};
  std::string format = {};
  std::string phase = {};         // Pending, Building, Succeeded, Failed
  std::string manifest_ref = {};  // where it was published
  std::string message = {};       // the step of a build, or why it failed
  Timestamp created_at{};
  Timestamp updated_at{};
  std::string json = {};
};

struct TemplateListOptions {
  StringMap metadata = {};  // all of them
  int page = 0;             // from 1; 0 leaves it to the server
  int page_size = 0;
  std::string match = {};  // the beginning of the id; see ListOptions::match
};

struct TemplateList {
  std::vector<Template> items = {};
  Page pagination = {};
  std::string json = {};
};

}  // namespace opensandbox
