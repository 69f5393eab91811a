#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "vault/binding.h"
#include "vault/secret.h"
#include "vault/source.h"

namespace osb::vault {

inline constexpr std::size_t kMaxBody = 1 << 20;
inline constexpr std::size_t kMostCredentials = 256;
inline constexpr std::size_t kMostBindings = 256;

struct NewCredential {
  std::string name;
  Secret value = {};
  Source source = {};
};

struct CreateRequest {
  std::vector<NewCredential> credentials = {};
  std::vector<Binding> bindings = {};
};

template <typename Item>
struct Changes {
  std::vector<Item> add = {};
  std::vector<Item> replace = {};
  std::vector<std::string> remove = {};
};

struct PatchRequest {
  std::optional<std::int64_t> expected_revision = {};
  Changes<NewCredential> credentials = {};
  Changes<Binding> bindings = {};
};

// The bodies of POST and PATCH. Keys are read in any case; unknown ones are refused; of the body the first JSON value
// counts. Values of credentials go into locked pages, and the parser's memory is overwritten. Errors repeat no values
// of credentials. Code::Unavailable: no memory can be locked; everything else is Code::InvalidRequest.
Result<CreateRequest> parse_create(std::string_view body, const BindingRules& rules = {});
Result<PatchRequest> parse_patch(std::string_view body, const BindingRules& rules = {});

}  // namespace osb::vault
