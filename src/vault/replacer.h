#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "vault/secret.h"

namespace osb::vault {

struct Replacement {
  SecretText pattern;  // not empty
  SecretText value;
};

// Texts and their replacements. At each place the longest pattern wins; inserted text is not looked at again. Immutable
// and shared.
class Replacements {
 public:
  // For one request.
  explicit Replacements(std::vector<Replacement> list);
  Replacements(Replacements&&) = default;  // the texts stay where they are
  Replacements& operator=(Replacements&&) = default;
  // To stay: the texts are in locked pages.
  static Result<std::shared_ptr<const Replacements>> locked(const std::vector<Replacement>& list);

  bool empty() const { return entries_.empty(); }
  bool occurs_in(std::string_view text) const;
  // The whole text with every pattern replaced.
  SecretText apply(std::string_view text) const;

 private:
  friend class StreamReplacer;
  struct Entry {
    std::string_view pattern, value;
  };
  struct Found {
    const Entry* complete = nullptr;  // the longest pattern that begins here
    bool cut_off = false;             // a longer one may begin here: the text ends inside it
  };
  Replacements() = default;
  void index();
  bool begins(char c) const { return first_[static_cast<unsigned char>(c)]; }
  Found find(std::string_view text) const;

  std::vector<Replacement> texts_;
  std::vector<Secret> secrets_;
  std::vector<Entry> entries_;     // the longest pattern first; they point into texts_ or secrets_
  std::array<bool, 256> first_{};  // bytes that patterns begin with
};
using ReplacementsPtr = std::shared_ptr<const Replacements>;

// The same for a stream. It holds bytes back only while they may be the beginning of a pattern.
class StreamReplacer {
 public:
  explicit StreamReplacer(ReplacementsPtr replacements) : replacements_(std::move(replacements)) {}

  // Appends to `out` the bytes that are certain after `chunk`.
  void write(std::string_view chunk, std::string& out);
  // The rest, at the end of the stream.
  void finish(std::string& out);

 private:
  void replace(std::string_view text, bool last, std::string& out);

  ReplacementsPtr replacements_;
  SecretText held_;
};

}  // namespace osb::vault
