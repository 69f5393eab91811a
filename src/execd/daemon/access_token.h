#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/message.h"

namespace osb::execd {

inline constexpr std::string_view kAccessTokenHeader = "X-EXECD-ACCESS-TOKEN";

// The token that requests must carry: itself, or, where execd learns it later, its SHA-256. Copies share it.
class AccessToken {
 public:
  explicit AccessToken(std::string token) : state_(std::make_shared<State>(State{std::move(token), {}})) {}

  // None is required: everything matches.
  bool empty() const { return state_->token.empty() && state_->hash.empty(); }
  bool matches(std::string_view given) const;
  // From now on a token with this SHA-256 (64 hexadecimal digits) is required, and no other.
  void require_hash(std::string hash);

 private:
  struct State {
    std::string token;
    std::string hash;
  };
  std::shared_ptr<State> state_;
};

// Lets every request with the token through; all others get 401. An empty token lets everything through. For a path
// that begins with "/access-token/" only the token in the path counts, not the headers; the two segments are removed
// from the target before `inner`, and the logs, see it.
http::Handler with_access_token(AccessToken token, http::Handler inner);

}  // namespace osb::execd
