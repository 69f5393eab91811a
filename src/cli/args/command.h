#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/values.h"
#include "cli/output/format.h"
#include "cli/problem.h"

namespace osb::cli {

// The kind of value that the shell offers for completion.
enum class Completes { Nothing, Files, Sandboxes, Snapshots, Images, RemotePaths, Policies };

// An option (with a value) or a flag (without). Made by Command, refined by chaining.
class Option {
 public:
  Option& required() { return required_ = true, *this; }
  Option& hidden() { return hidden_ = true, *this; }
  Option& completes(Completes what) { return completes_ = what, *this; }
  // Anything else is a usage error. Matching ignores case; the action sees the spelling given here.
  Option& choices(std::vector<std::string> allowed) { return choices_ = std::move(allowed), *this; }
  // Integers outside are a usage error.
  Option& range(std::int64_t min, std::int64_t max = std::numeric_limits<std::int64_t>::max());

 private:
  friend class Command;
  friend class Parser;
  std::vector<std::string> names_;  // "-o", "--output"
  std::string metavar_;             // empty: a flag
  std::string help_;
  bool required_ = false, hidden_ = false, repeatable_ = false, seen_ = false;
  Completes completes_ = Completes::Nothing;
  std::vector<std::string> choices_;
  std::optional<std::pair<std::int64_t, std::int64_t>> range_;
  std::function<Complaint(std::string_view)> set_;
  std::function<void()> set_off_;  // of a flag with a --no-.. twin
};

class Argument {
 public:
  Argument& optional() { return min_ = 0, *this; }
  Argument& completes(Completes what) { return completes_ = what, *this; }
  Argument& choices(std::vector<std::string> allowed) { return choices_ = std::move(allowed), *this; }

 private:
  friend class Command;
  friend class Parser;
  std::string name_;
  std::string help_;
  std::size_t min_ = 1, max_ = 1;
  Completes completes_ = Completes::Nothing;
  std::vector<std::string> choices_;
  std::function<Complaint(std::string_view)> set_;
};

struct Candidate {
  std::string value;
  std::string help;
};

// The completions for the shell: fixed words, and a kind that needs a lookup.
struct Completion {
  std::vector<Candidate> words;
  Completes dynamic = Completes::Nothing;
};

// A node of the command tree: a group of commands, or a command with an action. The tree is built once, top down:
//
//   void add_sandbox_get(Command& group, CommandIo& context) {
//     Command& command = group.command("get", "Show one sandbox.");
//     struct Options { std::string id; };
//     Options& options = command.values<Options>();
//     command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
//     command.formats({Format::Table, Format::Json, Format::Yaml});
//     command.action([&context, &options]() -> Outcome { .. return 0; });
//   }
//
// Parsing follows the original: options and arguments may be mixed, an option takes any next word as its value, "--"
// ends the options, short flags may be joined ("-it"), "--name=value" works, the last of a repeated option wins unless
// it collects into a vector. Options of a group stand before its command's name.
class Command {
 public:
  Command(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& command(std::string name, std::string summary);  // a child; a group is a command with children

  // More than the one-line summary, for --help.
  Command& details(std::string text) { return details_ = std::move(text), *this; }
  Command& hidden() { return hidden_ = true, *this; }
  // The last argument is a command line of its own: behind its first word nothing is an option of this command, as in
  // `docker exec NAME ls -l`.
  Command& ends_with_command_line() { return ends_with_command_line_ = true, *this; }
  // The action runs without the config file having been read: it may be broken.
  Command& without_config() { return without_config_ = true, *this; }

  // Storage that lives as long as the command: where options and arguments put their values.
  template <typename T>
  T& values() {
    auto made = std::make_shared<T>();
    T& reference = *made;
    values_.push_back(std::move(made));
    return reference;
  }

  // `names` is one or more names separated by commas: "-t,--timeout". `into` is a std::string, an integer, Duration,
  // KeyValue, Mode, a std::optional of one, or a std::vector of one (repeatable).
  template <typename T>
  Option& option(std::string_view names, std::string metavar, std::string help, T& into) {
    Option& made = add_option(names, std::move(help));
    made.metavar_ = std::move(metavar);
    made.repeatable_ = kIsList<T>;
    made.set_ = [&into](std::string_view text) { return parse_value(text, into); };
    return made;
  }
  Option& flag(std::string_view names, std::string help, bool& into);
  // --name / --no-name; unset when neither is given.
  Option& toggle(const std::string& name, std::string help, std::optional<bool>& into);

  template <typename T>
  Argument& argument(std::string name, T& into, std::string help = {}) {
    Argument& made = arguments_.emplace_back();
    made.name_ = std::move(name);
    made.help_ = std::move(help);
    if constexpr (kIsList<T>) made.max_ = std::numeric_limits<std::size_t>::max();
    made.set_ = [&into](std::string_view text) { return parse_value(text, into); };
    return made;
  }

  // -o/--output. The first is the default unless another is named.
  Command& formats(std::vector<Format> allowed, std::optional<Format> fallback = {});

  Command& action(std::function<Outcome()> run) { return run_ = std::move(run), *this; }

  // Walks down the tree with the words after the program's name and fills the values. Gives back the command whose
  // action is to run; for a group without a command, and for --help anywhere, the one whose help is to be printed.
  struct Parsed {
    Command* command;
    bool help;
  };
  Expected<Parsed> parse(const std::vector<std::string>& words);

  // The words that can replace the last word.
  Completion complete(const std::vector<std::string>& words);

  std::string help_text() const;
  std::string path() const;  // "osb sandbox get"
  const std::string& name() const { return name_; }
  bool needs_config() const { return !without_config_; }
  Format format() const { return format_; }
  bool format_given() const { return format_given_; }
  Outcome run() const { return run_(); }

 private:
  friend class Parser;
  Option& add_option(std::string_view names, std::string help);
  Option* find_option(std::string_view name);
  Command* find_command(std::string_view name);
  Command* nearest_command(std::string_view name);
  std::unexpected<Problem> wrong(std::string message, std::string hint = {}) const;
  Complaint set_option(Option& option, std::string_view value);
  Expected<void> place(const std::vector<std::string>& positional);
  Expected<void> check_required() const;
  std::string usage() const;

  std::string name_, summary_, details_;
  Command* parent_ = nullptr;
  bool hidden_ = false, without_config_ = false, format_given_ = false, ends_with_command_line_ = false;
  std::deque<Option> options_;
  std::deque<Argument> arguments_;
  std::deque<Command> children_;
  std::vector<std::shared_ptr<void>> values_;
  Format format_ = Format::Table;
  std::function<Outcome()> run_;
};

}  // namespace osb::cli
