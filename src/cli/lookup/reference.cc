#include "cli/lookup/reference.h"

#include <algorithm>

#include "base/id.h"

namespace osb::cli {
namespace {

constexpr std::size_t kMostCandidates = 5;

using Found = std::vector<const Referable*>;

std::string shown(const Found& candidates) {
  std::string out;
  for (std::size_t i = 0; i < candidates.size() && i < kMostCandidates; ++i) {
    out += (i == 0 ? "" : ", ") + candidates[i]->id;
    if (!candidates[i]->name.empty()) out += " (" + candidates[i]->name + ")";
  }
  if (candidates.size() > kMostCandidates)
    out += ", and " + std::to_string(candidates.size() - kMostCandidates) + " more";
  return out;
}

Found select(const std::vector<Referable>& known, auto&& matches) {
  Found out;
  for (const Referable& each : known) {
    if (matches(each)) out.push_back(&each);
  }
  return out;
}

std::unexpected<Problem> ambiguous(std::string message, std::string hint) {
  return std::unexpected(Problem{"Sandbox Error", "AMBIGUOUS_REFERENCE", std::move(message), std::move(hint)});
}

}  // namespace

bool is_whole_id(std::string_view text) { return is_uuid(text); }

Expected<std::string> choose_reference(std::string_view kind, const std::string& given,
                                       const std::vector<Referable>& known) {
  const std::string plural = std::string(kind) + (kind.ends_with('x') ? "es" : "s");
  if (!select(known, [&](const Referable& each) { return each.id == given; }).empty()) return given;
  Found named = select(known, [&](const Referable& each) { return each.name == given; });
  if (named.size() > 1) {
    Found live = named;
    std::erase_if(live, [](const Referable* each) { return each->ended; });
    if (live.size() == 1) named = live;
  }
  if (named.size() == 1) return named.front()->id;
  if (named.size() > 1) {
    return ambiguous(std::to_string(named.size()) + " " + plural + " are named '" + given + "': " + shown(named),
                     "Use the id.");
  }
  const Found begun = select(known, [&](const Referable& each) { return each.id.starts_with(given); });
  if (given.size() >= kShortestPrefix && begun.size() == 1) return begun.front()->id;
  if (given.size() >= kShortestPrefix && begun.size() > 1) {
    return ambiguous(
        std::to_string(begun.size()) + " " + plural + " have an id that begins with '" + given + "': " + shown(begun),
        "Write more of the id.");
  }
  std::string noun(kind);
  noun.front() = static_cast<char>(noun.front() - 'a' + 'A');
  Problem none{"Sandbox Error", "", noun + " '" + given + "' not found",
               "See 'osb " + std::string(kind) + " list' for what there is."};
  none.code = kind == "snapshot" ? "SNAPSHOT::NOT_FOUND" : "SANDBOX::NOT_FOUND";
  if (!begun.empty())
    none.hint = "The beginning of an id has at least " + std::to_string(kShortestPrefix) + " characters.";
  none.status = 404;
  return std::unexpected(std::move(none));
}

Expected<void> check_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool label = !name.empty() && name.size() <= 63 && letter(name.front()) && letter(name.back()) &&
                     std::ranges::all_of(name, [&](char c) { return letter(c) || c == '-'; });
  if (label && !is_whole_id(name)) return {};
  return invalid(
      "'" + std::string(name) + "' cannot be a sandbox's name.",
      label ? "It looks like an id." : "Use lower-case letters, digits and '-' inside, as in a host name; at most 63.");
}

}  // namespace osb::cli
