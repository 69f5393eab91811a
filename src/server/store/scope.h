#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace osb::server {

// The records that a reader may see: those of one tenant, or all.
class Scope {
 public:
  static Scope all() { return Scope(); }
  static Scope tenant(std::string name) {
    Scope out;
    out.tenant_ = std::move(name);
    return out;
  }
  bool covers_all() const { return !tenant_; }
  bool covers(std::string_view tenant) const { return !tenant_ || *tenant_ == tenant; }

 private:
  std::optional<std::string> tenant_;
};

// The administrator's tenant, and his name as an owner. Records of versions without tenants belong to them.
inline constexpr std::string_view kDefaultTenant = "default";
inline constexpr std::string_view kAdministrator = "admin";

// The owner of a record. It never changes.
struct Owner {
  std::string tenant{kDefaultTenant};
  std::string subject{kAdministrator};
  bool operator==(const Owner&) const = default;
};

}  // namespace osb::server
