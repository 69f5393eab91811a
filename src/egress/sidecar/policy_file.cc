#include "egress/sidecar/policy_file.h"

#include <sys/stat.h>

#include <boost/json/serialize.hpp>

#include "policy/text.h"
#include "sys/replace_file.h"
#include "sys/text_file.h"

namespace osb::egress {

std::string pretty(const policy::Policy& policy) {
  const auto value = policy::to_json(policy);
  std::string rules;
  for (const auto& rule : value.at("egress").as_array()) {
    std::string fields;
    for (const auto& field : rule.as_object()) {
      fields += (fields.empty() ? "      " : ",\n      ") + boost::json::serialize(field.key()) + ": " +
                boost::json::serialize(field.value());
    }
    rules += (rules.empty() ? "\n    {\n" : ",\n    {\n") + fields + "\n    }";
  }
  return "{\n  \"egress\": [" + rules + (rules.empty() ? "" : "\n  ") +
         "],\n  \"defaultAction\": " + boost::json::serialize(value.at("defaultAction")) + "\n}\n";
}

Result<std::optional<policy::Policy>> PolicyFile::load() const {
  if (path_.empty()) return std::nullopt;
  const auto text = sys::read_text(path_);
  if (!text && text.error().code == Code::NotFound) return std::nullopt;
  if (!text) return Failure(text.error());
  if (policy::trimmed(*text).empty()) return std::nullopt;
  auto policy = policy::parse_policy(*text);
  if (!policy) return with_context(path_, policy.error());
  return std::move(*policy);
}

Result<void> PolicyFile::save(const policy::Policy& policy) const {
  if (path_.empty()) return {};
  return keep_text(path_, pretty(policy));
}

Result<void> keep_text(const std::string& path, std::string_view text) {
  struct stat old{};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 07777 : 0600;
  return sys::replace_file(path, text, {.mode = mode});
}

}  // namespace osb::egress
