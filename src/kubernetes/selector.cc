#include "kubernetes/selector.h"

#include <algorithm>

#include "http/headers.h"
#include "kubernetes/object.h"

namespace osb::kubernetes {
namespace {

// Cut at `by`, but not inside parentheses; pieces without white space around them.
std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || (text[at] == by && depth == 0)) {
      out.push_back(http::trim_ows(text.substr(begin, at - begin)));
      begin = at + 1;
    } else if (text[at] == '(') {
      ++depth;
    } else if (text[at] == ')') {
      --depth;
    }
  }
  return out;
}

Failure wrong(std::string_view term) {
  return fail(Code::InvalidRequest, "selector: cannot read '" + std::string(term) + "'");
}

bool is_key(std::string_view text) { return !text.empty() && text.find_first_of(" \t!=(),") == std::string_view::npos; }

struct Comparison {
  std::string_view left, right;
  bool equal = true;
};
// "a=b", "a==b" or "a!=b".
bool compare(std::string_view term, Comparison& out) {
  const std::size_t sign = term.find('=');
  if (sign == std::string_view::npos || sign == 0) return false;
  out.equal = term[sign - 1] != '!';
  out.left = http::trim_ows(term.substr(0, out.equal ? sign : sign - 1));
  out.right = term.substr(sign + 1);
  if (out.equal && out.right.starts_with('=')) out.right.remove_prefix(1);
  out.right = http::trim_ows(out.right);
  return is_key(out.left) && out.right.find_first_of("=!(), \t") == std::string_view::npos;
}

}  // namespace

Result<LabelSelector::Term> LabelSelector::parse_term(std::string_view term) {
  if (is_key(term)) return Term{std::string(term), Operator::Exists, {}};
  if (term.starts_with('!') && is_key(http::trim_ows(term.substr(1)))) {
    return Term{std::string(http::trim_ows(term.substr(1))), Operator::Missing, {}};
  }
  if (Comparison found; compare(term, found)) {
    return Term{std::string(found.left), found.equal ? Operator::In : Operator::NotIn, {std::string(found.right)}};
  }
  const std::size_t open = term.find('(');
  if (open == std::string_view::npos || !term.ends_with(')')) return wrong(term);
  const auto words = split(http::trim_ows(term.substr(0, open)), ' ');
  const std::string_view how = words.back();
  if (words.size() < 2 || !is_key(words.front()) || (how != "in" && how != "notin")) return wrong(term);
  Term out{std::string(words.front()), how == "in" ? Operator::In : Operator::NotIn, {}};
  for (const std::string_view value : split(term.substr(open + 1, term.size() - open - 2), ',')) {
    out.values.emplace_back(value);
  }
  return out;
}

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
  LabelSelector out;
  if (http::trim_ows(text).empty()) return out;
  for (const std::string_view term : split(text, ',')) {
    auto parsed = parse_term(term);
    if (!parsed) return Failure(parsed.error());
    out.terms_.push_back(std::move(*parsed));
  }
  return out;
}

bool LabelSelector::matches(const json::object& object) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    const json::value* found = find(object, {"metadata", "labels", term.key});
    const bool listed = found != nullptr && found->is_string() &&
                        std::ranges::find(term.values, std::string_view(found->get_string())) != term.values.end();
    switch (term.how) {
      case Operator::In:
        return listed;
      case Operator::NotIn:
        return !listed;  // a missing label is none of the values
      case Operator::Exists:
        return found != nullptr;
      case Operator::Missing:
        return found == nullptr;
    }
    return false;
  });
}

Result<FieldSelector> FieldSelector::parse(std::string_view text) {
  FieldSelector out;
  if (http::trim_ows(text).empty()) return out;
  for (const std::string_view term : split(text, ',')) {
    Comparison found;
    if (!compare(term, found)) return wrong(term);
    Term parsed{{}, found.equal, std::string(found.right)};
    for (const std::string_view step : split(found.left, '.')) parsed.path.emplace_back(step);
    out.terms_.push_back(std::move(parsed));
  }
  return out;
}

bool FieldSelector::matches(const json::object& object) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    const json::object* in = &object;
    const json::value* at = nullptr;
    for (const std::string& step : term.path) {
      at = in == nullptr ? nullptr : in->if_contains(step);
      in = at == nullptr ? nullptr : at->if_object();
    }
    const bool same = (at != nullptr && at->is_string() ? std::string_view(at->get_string()) : "") == term.value;
    return same == term.equal;
  });
}

}  // namespace osb::kubernetes
