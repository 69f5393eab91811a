#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "server/store/scope.h"

namespace osb::server {

enum class Role {
  Administrator,  // sees every tenant
  Member,         // sees the own tenant
};

// The sender of a request, as authentication found it.
struct Principal {
  Owner owner;  // of the records that it makes
  Role role = Role::Member;

  Scope scope() const { return role == Role::Administrator ? Scope::all() : Scope::tenant(owner.tenant); }
};
// Code::Forbidden for everyone else. `reason` says why it is asked for.
Result<void> require_administrator(const Principal& who, std::string_view reason);
// Shared: streams outlive their request.
using PrincipalPtr = std::shared_ptr<const Principal>;

}  // namespace osb::server
