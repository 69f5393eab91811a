#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/error.h"
#include "credentials/catalogue.h"
#include "credentials/providers.h"
#include "vault/wiping_resource.h"

namespace osb::credentials {

// The body of a POST or PATCH of a vault, in memory that is overwritten. Keys count in any case, as the vault reads
// them; everything that is no source of an entry stays as it is, for the vault to judge.
class VaultBody {
 public:
  // A credential whose source is {"type": "operator", "entry": ..}.
  struct Named {
    std::string credential;
    std::string entry;
    std::string bindings;  // of this body that use it, with commas; "" is none
    api::json::object* source = nullptr;
  };

  // Code::InvalidRequest: no JSON.
  static Result<std::unique_ptr<VaultBody>> parse(std::string_view text);

  const std::vector<Named>& named() const { return named_; }
  // Puts the value of the entry in, with the hosts that it may go to and its end. What the request said about these is
  // dropped.
  static void fill(const Named& named, const Entry& entry, const Fetched& fetched);
  // For the vault. It holds the values.
  std::string serialize() const;

 private:
  VaultBody() = default;
  void collect(api::json::object& root);

  vault::WipingResource memory_;
  std::optional<api::json::value> value_;  // in memory_
  std::vector<Named> named_;
};

}  // namespace osb::credentials
