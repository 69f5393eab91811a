#include "vault/replacer.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace osb::vault {

Replacements::Replacements(std::vector<Replacement> list) : texts_(std::move(list)) {
  for (const Replacement& each : texts_) entries_.push_back({each.pattern.view(), each.value.view()});
  index();
}

Result<std::shared_ptr<const Replacements>> Replacements::locked(const std::vector<Replacement>& list) {
  std::vector<std::string_view> texts;
  for (const Replacement& each : list) {
    texts.push_back(each.pattern.view());
    texts.push_back(each.value.view());
  }
  auto secrets = Secret::lock(texts);
  if (!secrets) return Failure(secrets.error());
  std::shared_ptr<Replacements> out(new Replacements());
  out->secrets_ = std::move(*secrets);
  for (std::size_t i = 0; i < out->secrets_.size(); i += 2) {
    out->entries_.push_back({out->secrets_[i].view(), out->secrets_[i + 1].view()});
  }
  out->index();
  return out;
}

void Replacements::index() {
  std::erase_if(entries_, [](const Entry& each) { return each.pattern.empty(); });
  std::ranges::sort(entries_, std::greater<>(), [](const Entry& each) { return each.pattern.size(); });
  for (const Entry& each : entries_) first_[static_cast<unsigned char>(each.pattern.front())] = true;
}

Replacements::Found Replacements::find(std::string_view text) const {
  Found out;
  for (const Entry& each : entries_) {
    if (text.starts_with(each.pattern)) {
      out.complete = &each;
      return out;
    }
    if (text.size() < each.pattern.size() && each.pattern.starts_with(text)) out.cut_off = true;
  }
  return out;
}

bool Replacements::occurs_in(std::string_view text) const {
  return std::ranges::any_of(entries_, [&](const Entry& each) { return text.contains(each.pattern); });
}

SecretText Replacements::apply(std::string_view text) const {
  SecretText out;
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Entry* found = begins(text[at]) ? find(text.substr(at)).complete : nullptr;
    if (found == nullptr) {
      ++at;
      continue;
    }
    out.append(text.substr(copied, at - copied));
    out.append(found->value);
    at += found->pattern.size();
    copied = at;
  }
  out.append(text.substr(copied));
  return out;
}

void StreamReplacer::replace(std::string_view text, bool last, std::string& out) {
  std::size_t copied = 0;
  SecretText held;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = replacements_->begins(text[at]) ? replacements_->find(text.substr(at)) : Replacements::Found();
    if (found.cut_off && !last) {
      out.append(text.substr(copied, at - copied));
      held.append(text.substr(at));
      held_ = std::move(held);
      return;
    }
    if (found.complete == nullptr) {
      ++at;
      continue;
    }
    out.append(text.substr(copied, at - copied));
    out.append(found.complete->value);
    at += found.complete->pattern.size();
    copied = at;
  }
  out.append(text.substr(copied));
  held_.clear();
}

void StreamReplacer::write(std::string_view chunk, std::string& out) {
  if (held_.empty()) return replace(chunk, false, out);
  held_.append(chunk);
  const SecretText text = std::exchange(held_, SecretText());
  replace(text.view(), false, out);
}

void StreamReplacer::finish(std::string& out) {
  const SecretText text = std::exchange(held_, SecretText());
  replace(text.view(), true, out);
}

}  // namespace osb::vault
