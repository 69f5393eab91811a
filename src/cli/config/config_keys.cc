#include "cli/config/config_keys.h"

#include <algorithm>
#include <array>
#include <vector>

#include "api/json.h"
#include "base/edit_distance.h"
#include "base/text.h"
#include "cli/args/values.h"
#include "http/url.h"

namespace osb::cli {
namespace {

struct KnownKey {
  std::string_view section, field;
  ConfigKind kind;
};

constexpr std::array kKnown = {
    KnownKey{"connection", "api_key", ConfigKind::Text},
    KnownKey{"connection", "domain", ConfigKind::Domain},
    KnownKey{"connection", "protocol", ConfigKind::Protocol},
    KnownKey{"connection", "request_timeout", ConfigKind::Seconds},
    KnownKey{"connection", "use_server_proxy", ConfigKind::Switch},
    KnownKey{"connection", "profile", ConfigKind::Profile},
    KnownKey{"output", "color", ConfigKind::Switch},
    KnownKey{"defaults", "image", ConfigKind::Text},
    KnownKey{"defaults", "timeout", ConfigKind::Lifetime},
};
constexpr std::string_view kProfiles = "profiles.";

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  return *std::ranges::min_element(known, {}, [&](const std::string& each) { return edit_distance(each, name); });
}

std::unexpected<Problem> not_allowed(const ConfigKey& key, std::string_view value, const std::string& allowed) {
  const std::string shown = key.field == "api_key" ? "" : " '" + std::string(value) + "'";
  return invalid(key.section + "." + key.field + " cannot be" + shown + ": it must be " + allowed + ".");
}

}  // namespace

bool is_bare_key(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; });
}

Expected<ConfigKey> find_config_key(std::string_view name) {
  const auto dot = name.rfind('.');
  const std::string_view section = name.substr(0, dot == std::string_view::npos ? 0 : dot);
  const std::string_view field = dot == std::string_view::npos ? name : name.substr(dot + 1);
  const bool profile = section.starts_with(kProfiles) && is_bare_key(section.substr(kProfiles.size()));
  std::vector<std::string> known;
  for (const KnownKey& each : kKnown) {
    if (profile && each.kind == ConfigKind::Profile) continue;
    if (each.field == field && (profile || each.section == section)) {
      return ConfigKey{std::string(section), std::string(field), each.kind};
    }
    known.push_back(std::string(profile ? section : each.section) + "." + std::string(each.field));
  }
  // The same field of another section is nearer than a word that looks alike.
  const auto same =
      std::ranges::find_if(known, [&](const std::string& each) { return each.substr(each.rfind('.') + 1) == field; });
  return invalid("There is no key '" + std::string(name) + "'.",
                 "Did you mean " + (same != known.end() ? *same : nearest(name, known)) +
                     "? 'osb config set --help' lists all keys.");
}

Expected<std::string> checked_value(const ConfigKey& key, std::string_view value) {
  switch (key.kind) {
    case ConfigKind::Text:
      for (const char c : value) {
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
          return not_allowed(key, "", "text without control characters");
      }
      if (value.empty()) return not_allowed(key, value, "some text; 'osb config unset' removes it");
      break;
    case ConfigKind::Domain: {
      const bool has_scheme = value.find("://") != std::string_view::npos;
      const auto url = http::Url::parse(has_scheme ? std::string(value) : "http://" + std::string(value));
      const bool web = url && (url->scheme == "http" || url->scheme == "https") && !url->host.empty();
      if (!web) return not_allowed(key, value, "HOST, HOST:PORT or a URL that begins with http:// or https://");
      break;
    }
    case ConfigKind::Protocol:
      if (value != "http" && value != "https") return not_allowed(key, value, "http or https");
      break;
    case ConfigKind::Seconds: {
      std::int64_t seconds = 0;
      if (parse_value(value, seconds) || seconds < 1 || seconds > kMaxRequestTimeout) {
        return not_allowed(key, value, "a number of seconds from 1 to " + std::to_string(kMaxRequestTimeout));
      }
      return std::to_string(seconds);
    }
    case ConfigKind::Switch: {
      const auto on = api::parse_lax_bool(value);
      if (!on) return not_allowed(key, value, "true or false");
      return *on ? "true" : "false";
    }
    case ConfigKind::Lifetime: {
      NullableDuration lifetime;
      if (parse_value(value, lifetime)) return not_allowed(key, value, "a time such as 90s, 10m or 1h30m, or none");
      break;
    }
    case ConfigKind::Profile:
      if (!is_bare_key(value)) return not_allowed(key, value, "the name of a profile");
      break;
  }
  return std::string(value);
}

}  // namespace osb::cli
