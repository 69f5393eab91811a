#pragma once

#include <string>
#include <utility>

#include "http/body.h"
#include "vault/wiping_resource.h"

namespace osb::server {

// A body in memory that is overwritten when it goes.
class SecretBody final : public http::BodySource {
 public:
  explicit SecretBody(std::string text) : text_(std::move(text)) {}
  std::string_view text() const { return text_.text; }

  net::awaitable<Result<std::string_view>> read() override {
    co_return std::exchange(given_, true) ? std::string_view() : text();
  }
  bool ready() const override { return true; }
  std::optional<std::uint64_t> length() const override { return text_.text.size(); }

 private:
  vault::WipedString text_;
  bool given_ = false;
};

}  // namespace osb::server
