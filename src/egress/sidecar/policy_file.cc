#include "egress/sidecar/policy_file.h"

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>

#include "base/unique_fd.h"
#include "policy/text.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

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
  return replace_file(path_, pretty(policy));
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  struct stat old{};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 07777 : 0600;
  const std::string staged = path + ".new";
  UniqueFd file(::open(staged.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return sys::from_errno("write " + staged, errno);
  if (::fchmod(file.get(), mode) < 0) return sys::from_errno("set the mode of " + staged, errno);
  if (auto written = sys::write_all(file.get(), text, staged); !written) return written;
  if (::fsync(file.get()) < 0) return sys::from_errno("write " + staged + " to disk", errno);
  if (::rename(staged.c_str(), path.c_str()) < 0) return sys::from_errno("rename " + staged, errno);
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const UniqueFd parent(::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || ::fsync(parent.get()) < 0) return sys::from_errno("write " + directory + " to disk", errno);
  return {};
}

}  // namespace osb::egress
