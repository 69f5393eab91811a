#include "sandboxd/daemon/check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <fmt/format.h>

#include "base/json_escape.h"

namespace osb::sandboxd {
namespace {

using State = HostCheck::State;

std::string_view word(State state) {
  switch (state) {
    case State::Ok:
      return "ok";
    case State::Degraded:
      return "degraded";
    case State::Missing:
      return "missing";
    case State::Required:
      break;
  }
  return "required";
}

std::string_view colour_of(State state) {
  switch (state) {
    case State::Ok:
      return "\x1b[32m";
    case State::Degraded:
      return "\x1b[33m";
    case State::Missing:
      return "\x1b[2m";
    case State::Required:
      break;
  }
  return "\x1b[1;31m";
}

bool complete(const std::vector<HostCheck>& checks) {
  return std::ranges::none_of(checks, [](const HostCheck& check) { return check.state == State::Required; });
}

}  // namespace

Result<void> require_host(const std::vector<HostCheck>& checks) {
  if (complete(checks)) return {};
  std::string sentence = "this host cannot run sandboxes: ";
  bool first = true;
  for (const HostCheck& check : checks) {
    if (check.state != State::Required) continue;
    sentence += fmt::format("{}{}: {}", first ? "" : "; ", check.what, check.detail);
    if (!check.advice.empty()) sentence += fmt::format(" ({})", check.advice);
    first = false;
  }
  return fail(Code::Unsupported, sentence);
}

std::string format_checks(const std::vector<HostCheck>& checks, bool colour) {
  std::size_t width = 0;
  for (const HostCheck& check : checks) width = std::max(width, check.what.size());
  constexpr std::size_t kStateWidth = 8;
  std::string out;
  for (const HostCheck& check : checks) {
    const std::string state = fmt::format("{:<{}}", word(check.state), kStateWidth);
    out += fmt::format("{:<{}}  {}{}{}  {}\n", check.what, width, colour ? colour_of(check.state) : "", state,
                       colour ? "\x1b[0m" : "", check.detail);
    if (!check.advice.empty()) out += fmt::format("{:{}}-> {}\n", "", width + kStateWidth + 4, check.advice);
  }
  return out;
}

std::string checks_to_json(const std::vector<HostCheck>& checks) {
  std::string out = fmt::format("{{\"ok\":{},\"checks\":[", complete(checks));
  for (const HostCheck& check : checks) {
    out += &check == checks.data() ? "\n" : ",\n";
    out += "{\"what\":";
    append_json_string(out, check.what);
    out += fmt::format(",\"state\":\"{}\",\"detail\":", word(check.state));
    append_json_string(out, check.detail);
    out += ",\"advice\":";
    append_json_string(out, check.advice);
    out += "}";
  }
  return out + "\n]}\n";
}

int run_check(const CheckOptions& options, bool json) {
  const auto checks = check_host(options);
  const bool colour = ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  const std::string text = json ? checks_to_json(checks) : format_checks(checks, colour);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return complete(checks) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace osb::sandboxd
