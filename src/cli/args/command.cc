#include "cli/args/command.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "base/text.h"

namespace osb::cli {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view separator, std::string_view quote = "") {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += separator;
    out.append(quote).append(word).append(quote);
  }
  return out;
}

// Canonical spelling of a choice, or a complaint that lists them.
std::expected<std::string, std::string> choose(std::string_view text, const std::vector<std::string>& choices) {
  if (choices.empty()) return std::string(text);
  for (const std::string& choice : choices) {
    if (equals_ignoring_case(choice, text)) return choice;
  }
  return std::unexpected("'" + std::string(text) + "' is not one of " + joined(choices, ", ", "'") + ".");
}

}  // namespace

Option& Option::range(std::int64_t min, std::int64_t max) { return range_.emplace(min, max), *this; }

Command& Command::command(std::string name, std::string summary) {
  Command& child = children_.emplace_back(std::move(name), std::move(summary));
  child.parent_ = this;
  child.without_config_ = without_config_;
  return child;
}

Option& Command::add_option(std::string_view names, std::string help) {
  Option& made = options_.emplace_back();
  while (!names.empty()) {
    const auto comma = names.find(',');
    made.names_.emplace_back(names.substr(0, comma));
    names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
  }
  made.help_ = std::move(help);
  return made;
}

Option& Command::flag(std::string_view names, std::string help, bool& into) {
  Option& made = add_option(names, std::move(help));
  made.set_ = [&into](std::string_view) { return into = true, Complaint(); };
  return made;
}

Option& Command::toggle(const std::string& name, std::string help, std::optional<bool>& into) {
  Option& made = add_option("--" + name + ",--no-" + name, std::move(help));
  made.set_ = [&into](std::string_view) { return into = true, Complaint(); };
  made.set_off_ = [&into] { into = false; };
  return made;
}

Command& Command::formats(std::vector<Format> allowed, std::optional<Format> fallback) {
  std::vector<std::string> names;
  for (const Format format : allowed) names.emplace_back(format_name(format));
  format_ = fallback.value_or(allowed.front());
  Option& made = add_option("-o,--output", "Output format: " + joined(names, ", ") + ".");
  made.metavar_ = "FORMAT";
  made.choices_ = std::move(names);
  made.set_ = [this](std::string_view text) {
    format_ = parse_format(text).value_or(format_);
    format_given_ = true;
    return Complaint();
  };
  return *this;
}

Option* Command::find_option(std::string_view name) {
  for (Option& option : options_) {
    if (std::ranges::find(option.names_, name) != option.names_.end()) return &option;
  }
  return nullptr;
}

Command* Command::find_command(std::string_view name) {
  const auto found = std::ranges::find_if(children_, [&](const Command& c) { return c.name_ == name; });
  return found == children_.end() ? nullptr : &*found;
}

Command* Command::nearest_command(std::string_view name) {
  Command* best = nullptr;
  std::size_t least = 3;  // further away is another word, not a slip
  for (Command& child : children_) {
    if (child.hidden_) continue;
    if (const std::size_t far = edit_distance(child.name_, name); far < least && far < name.size()) {
      best = &child;
      least = far;
    }
  }
  return best;
}

std::string Command::path() const { return parent_ != nullptr ? parent_->path() + " " + name_ : name_; }

std::unexpected<Problem> Command::wrong(std::string message, std::string hint) const {
  if (hint.empty()) hint = "Try '" + path() + " --help'.";
  return usage_error(std::move(message), std::move(hint));
}

Complaint Command::set_option(Option& option, std::string_view value) {
  auto chosen = choose(value, option.choices_);
  if (!chosen) return chosen.error();
  if (option.range_) {
    std::int64_t number = 0;
    if (auto complaint = parse_value(value, number)) return complaint;
    const auto [min, max] = *option.range_;
    if (number < min || number > max) {
      const bool open = max == std::numeric_limits<std::int64_t>::max();
      return std::to_string(number) + " is not in the range " +
             (open ? "x>=" + std::to_string(min) : std::to_string(min) + "<=x<=" + std::to_string(max)) + ".";
    }
  }
  option.seen_ = true;
  return option.set_(*chosen);
}

// The words of one call, taken from left to right.
class Parser {
 public:
  Parser(Command& root, const std::vector<std::string>& words) : at_(&root), words_(words) {}

  Expected<Command::Parsed> run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (!literal_ && word == "--") {
        literal_ = true;
      } else if (!literal_ && word.starts_with("--")) {
        if (auto done = long_option(word); !done) return std::unexpected(done.error());
      } else if (!literal_ && word.size() > 1 && word.front() == '-') {
        if (auto done = short_options(word); !done) return std::unexpected(done.error());
      } else if (!at_->children_.empty()) {
        if (auto done = descend(word); !done) return std::unexpected(done.error());
      } else {
        positional_.push_back(word);
        if (at_->ends_with_command_line_ && positional_.size() >= at_->arguments_.size()) literal_ = true;
      }
      if (help_) return Command::Parsed{at_, true};
    }
    if (!at_->run_) return Command::Parsed{at_, true};
    if (auto placed = at_->place(positional_); !placed) return std::unexpected(placed.error());
    if (auto complete = at_->check_required(); !complete) return std::unexpected(complete.error());
    return Command::Parsed{at_, false};
  }

  // As far as the words make sense; for completion. Also tells which option waits for its value.
  Command* at() const { return at_; }
  std::size_t positional() const { return positional_.size(); }
  bool literal() const { return literal_; }
  Option* waiting() const { return waiting_; }

 private:
  Expected<void> long_option(const std::string& word) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name == "--help") return help_ = true, Expected<void>();
    Option* option = at_->find_option(name);
    if (option == nullptr) return unknown(name);
    if (option->metavar_.empty()) {
      if (equals != std::string::npos) return at_->wrong("Option '" + name + "' does not take a value.");
      if (option->set_off_ && name.starts_with("--no-")) return option->set_off_(), Expected<void>();
      return set(*option, name, "");
    }
    if (equals != std::string::npos) return set(*option, name, std::string_view(word).substr(equals + 1));
    return take_value(*option, name);
  }

  Expected<void> short_options(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      Option* option = at_->find_option(name);
      if (name == "-h" && option == nullptr) return help_ = true, Expected<void>();
      if (option == nullptr) return unknown(name);
      if (!option->metavar_.empty()) {
        if (i + 1 < word.size()) return set(*option, name, std::string_view(word).substr(i + 1));
        return take_value(*option, name);
      }
      if (auto done = set(*option, name, ""); !done) return done;
    }
    return {};
  }

  Expected<void> take_value(Option& option, const std::string& name) {
    waiting_ = &option;
    if (next_ == words_.size()) return at_->wrong("Option '" + name + "' requires an argument.");
    waiting_ = nullptr;
    return set(option, name, words_[next_++]);
  }

  Expected<void> set(Option& option, const std::string& name, std::string_view value) {
    if (auto complaint = at_->set_option(option, value)) {
      return at_->wrong("Invalid value for '" + name + "': " + *complaint);
    }
    return {};
  }

  Expected<void> descend(const std::string& word) {
    if (Command* child = at_->find_command(word)) {
      if (auto complete = at_->check_required(); !complete) return complete;
      at_ = child;
      return {};
    }
    const Command* near = at_->nearest_command(word);
    return at_->wrong("No such command '" + word + "'.", near != nullptr ? "Did you mean '" + near->path() + "'?" : "");
  }

  Expected<void> unknown(const std::string& name) {
    for (Command* above = at_->parent_; above != nullptr; above = above->parent_) {
      if (above->find_option(name) == nullptr) continue;
      return at_->wrong("No such option '" + name + "'.", "It is an option of '" + above->path() +
                                                              "': write it before '" +
                                                              at_->path().substr(above->path().size() + 1) + "'.");
    }
    const bool takes_words = !at_->arguments_.empty() && at_->arguments_.back().max_ > 1;
    return at_->wrong("No such option '" + name + "'.",
                      takes_words ? "Write '--' before words that are not options of '" + at_->path() + "'." : "");
  }

  Command* at_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  bool literal_ = false, help_ = false;
  Option* waiting_ = nullptr;
  std::vector<std::string> positional_;
};

// Arguments before and after the one that takes several get one word each.
Expected<void> Command::place(const std::vector<std::string>& positional) {
  std::size_t next = 0, needed = 0;
  for (const Argument& argument : arguments_) needed += argument.min_;
  for (Argument& argument : arguments_) {
    needed -= argument.min_;
    const std::size_t left = positional.size() - next;
    if (left < argument.min_) return wrong("Missing argument '" + argument.name_ + "'.");
    const std::size_t spare = left > needed ? left - needed : 0;
    const std::size_t count = std::max(argument.min_, std::min(argument.max_, spare));
    for (std::size_t i = 0; i < count; ++i) {
      auto chosen = choose(positional[next], argument.choices_);
      const Complaint complaint = chosen ? argument.set_(*chosen) : Complaint(chosen.error());
      if (complaint) return wrong("Invalid value for '" + argument.name_ + "': " + *complaint);
      ++next;
    }
  }
  if (next < positional.size()) return wrong("Got unexpected extra argument (" + positional[next] + ").");
  return {};
}

Expected<void> Command::check_required() const {
  for (const Option& option : options_) {
    if (option.required_ && !option.seen_) return wrong("Missing option '" + joined(option.names_, "' / '") + "'.");
  }
  return {};
}

Expected<Command::Parsed> Command::parse(const std::vector<std::string>& words) { return Parser(*this, words).run(); }

Completion Command::complete(const std::vector<std::string>& words) {
  Completion out;
  if (words.empty()) return out;
  const std::string& last = words.back();
  const std::vector<std::string> before(words.begin(), words.end() - 1);
  Parser parser(*this, before);
  (void)parser.run();  // errors do not matter: how far it came does
  Command& at = *parser.at();
  const auto offer = [&](const std::string& value, const std::string& help) {
    if (value.starts_with(last)) out.words.push_back({value, help});
  };
  if (const Option* option = parser.waiting()) {
    for (const std::string& choice : option->choices_) offer(choice, "");
    out.dynamic = option->completes_;
    return out;
  }
  if (!parser.literal() && last.starts_with('-')) {
    for (const Option& option : at.options_) {
      if (option.hidden_) continue;
      for (const std::string& name : option.names_) {
        if (name.starts_with("--") || option.names_.size() == 1) offer(name, option.help_);
      }
    }
    offer("--help", "Show this message and exit.");
    return out;
  }
  for (const Command& child : at.children_) {
    if (!child.hidden_) offer(child.name_, child.summary_);
  }
  if (at.children_.empty() && !at.arguments_.empty()) {
    const std::size_t index = std::min(parser.positional(), at.arguments_.size() - 1);
    const Argument& argument = at.arguments_[index];
    if (parser.positional() < at.arguments_.size() || argument.max_ > 1) {
      for (const std::string& choice : argument.choices_) offer(choice, "");
      out.dynamic = argument.completes_;
    }
  }
  return out;
}

}  // namespace osb::cli
