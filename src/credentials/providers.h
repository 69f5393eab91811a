#pragma once

#include <chrono>
#include <optional>

#include "async/net.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "credentials/catalogue.h"
#include "vault/secret.h"

namespace osb::credentials {

struct Fetched {
  vault::SecretText value;
  std::optional<Timestamp> expires = {};                   // from then on the value must not be used
  std::optional<std::chrono::seconds> refresh_after = {};  // when to fetch the next one, before this one expires
};

// Fetches the value of an entry from its provider. Code::Unavailable: the provider gave none; the error says why and
// repeats neither the value nor the server's own secrets. A fetch ends after the entry's timeout. `clock` outlives the
// call.
net::awaitable<Result<Fetched>> fetch(Entry entry, const Clock& clock = system_clock());

// The times of a value. One with a lifetime is fetched again after four fifths of it. One that the operator wants
// refreshed, but whose provider states no lifetime, expires after two intervals: a provider that stays away must not
// leave an old value in use.
void set_times(Fetched& fetched, std::optional<std::chrono::seconds> lifetime, std::chrono::seconds refresh,
               Timestamp now);

}  // namespace osb::credentials
