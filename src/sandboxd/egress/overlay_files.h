#pragma once

#include <functional>
#include <string>

#include "api/egress_link.h"
#include "async/descriptor.h"
#include "base/error.h"
#include "policy/overlay.h"

namespace osb::sandboxd {

// The operator's rules for all sandboxes: deny.always and allow.always in one directory. One loop.
class OverlayFiles {
 public:
  // `collector`: a host that is allowed as if allow.always named it; empty: none.
  explicit OverlayFiles(std::string directory, std::string collector = {})
      : directory_(std::move(directory)), collector_(std::move(collector)) {}

  struct Loaded {
    api::egress::OverlayTexts texts;
    policy::Overlays overlays;
  };
  // A missing file has no rules. Code::InvalidRequest names the file and the line.
  Result<Loaded> load() const;

  // Makes the directory where there is none, and calls `changed` after each change of a file in it, until cancelled.
  net::awaitable<void> watch(std::function<void()> changed);

 private:
  const std::string directory_, collector_;
};

}  // namespace osb::sandboxd
