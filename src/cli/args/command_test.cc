#include "cli/args/command.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

struct Values {
  std::string id, workdir;
  std::vector<std::string> words, envs;
  std::optional<Mode> mode;
  Duration timeout;
  int port = 0;
  bool background = false, interactive = false;
  std::optional<bool> proxy;
};

// osb [--use-proxy] box run [OPTIONS] ID WORDS...
struct Tree {
  Command root{"osb", "Root."};
  Values values;
  Command* run;

  Tree() {
    root.toggle("use-proxy", "Proxy.", values.proxy);
    Command& group = root.command("box", "Group.");
    run = &group.command("run", "Runs.");
    run->argument("ID", values.id).completes(Completes::Sandboxes);
    run->argument("WORDS", values.words);
    run->option("-w,--workdir", "TEXT", "Directory.", values.workdir);
    run->option("-e,--env", "TEXT", "Repeatable.", values.envs);
    run->option("-t,--timeout", "DURATION", "Time.", values.timeout);
    run->option("-p,--port", "PORT", "Port.", values.port).range(1, 65535);
    run->option("--mode", "MODE", "Mode.", values.mode);
    run->flag("-d,--background", "Background.", values.background);
    run->flag("-i,--interactive", "Interactive.", values.interactive);
    run->formats({Format::Table, Format::Json});
    run->action([]() -> Outcome { return 0; });
    group.command("list", "Lists.").action([]() -> Outcome { return 0; });
  }

  std::string error(const std::vector<std::string>& words) {
    const auto parsed = root.parse(words);
    return parsed ? "no error" : parsed.error().message + " | " + parsed.error().hint;
  }
};

TEST(Command, TakesOptionsAndArgumentsInAnyOrder) {
  Tree tree;
  const auto parsed = tree.root.parse({"--no-use-proxy", "box", "run", "-d", "sb", "-w/tmp", "a", "--env=A=1", "-e",
                                       "-x", "b", "-t", "1m30s", "-o", "JSON"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->command, tree.run);
  EXPECT_EQ(tree.values.id, "sb");
  EXPECT_EQ(tree.values.words, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(tree.values.workdir, "/tmp");
  EXPECT_EQ(tree.values.envs, (std::vector<std::string>{"A=1", "-x"})) << "a value may look like an option";
  EXPECT_EQ(tree.values.timeout.value.count(), 90);
  EXPECT_TRUE(tree.values.background);
  EXPECT_EQ(tree.values.proxy, false);
  EXPECT_EQ(tree.run->format(), Format::Json);
  EXPECT_TRUE(tree.run->format_given());
}

TEST(Command, LeavesWordsBehindTwoDashesAlone) {
  Tree tree;
  ASSERT_TRUE(tree.root.parse({"box", "run", "sb", "--", "ls", "-la", "--", "--help"}));
  EXPECT_EQ(tree.values.words, (std::vector<std::string>{"ls", "-la", "--", "--help"}));
}

TEST(Command, ACommandLineAtTheEndKeepsItsOptions) {
  Tree tree;
  tree.run->ends_with_command_line();
  ASSERT_TRUE(tree.root.parse({"box", "run", "sb", "-d", "ls", "-l", "-e", "--", "--help"}));
  EXPECT_TRUE(tree.values.background);
  EXPECT_EQ(tree.values.words, (std::vector<std::string>{"ls", "-l", "-e", "--", "--help"}));
}

TEST(Command, TakesJoinedShortFlags) {
  Tree tree;
  ASSERT_TRUE(tree.root.parse({"box", "run", "-diw", "/", "sb", "x"}));
  EXPECT_TRUE(tree.values.background && tree.values.interactive);
  EXPECT_EQ(tree.values.workdir, "/");
}

TEST(Command, SaysWhatIsWrongAndWhatToDo) {
  Tree tree;
  struct {
    const char* why;
    std::vector<std::string> words;
    const char* want;
  } rows[] = {
      {"unknown command", {"bax"}, "No such command 'bax'. | Did you mean 'osb box'?"},
      {"unknown subcommand", {"box", "zzzzz"}, "No such command 'zzzzz'. | Try 'osb box --help'."},
      {"unknown option", {"box", "list", "--nope"}, "No such option '--nope'. | Try 'osb box list --help'."},
      {"option of the command in the sandbox",
       {"box", "run", "sb", "ls", "-l"},
       "No such option '-l'. | Write '--' before words that are not options of 'osb box run'."},
      {"root option in the wrong place",
       {"box", "list", "--use-proxy"},
       "No such option '--use-proxy'. | It is an option of 'osb': write it before 'box list'."},
      {"missing argument", {"box", "run"}, "Missing argument 'ID'. | Try 'osb box run --help'."},
      {"missing second argument", {"box", "run", "sb"}, "Missing argument 'WORDS'. | Try 'osb box run --help'."},
      {"missing value", {"box", "run", "-w"}, "Option '-w' requires an argument. | Try 'osb box run --help'."},
      {"too many arguments", {"box", "list", "x"}, "Got unexpected extra argument (x). | Try 'osb box list --help'."},
      {"not a duration",
       {"box", "run", "-t", "5d"},
       "Invalid value for '-t': Invalid duration '5d'. Use format like 10m, 1h30m, 90s. | Try 'osb box run --help'."},
      {"out of range",
       {"box", "run", "--port", "70000"},
       "Invalid value for '--port': 70000 is not in the range 1<=x<=65535. | Try 'osb box run --help'."},
      {"format that is not offered",
       {"box", "run", "-o", "yaml"},
       "Invalid value for '-o': 'yaml' is not one of 'table', 'json'. | Try 'osb box run --help'."},
      {"flag with a value",
       {"box", "run", "-d", "--background=yes"},
       "Option '--background' does not take a value. | Try 'osb box run --help'."},
  };
  for (const auto& row : rows) EXPECT_EQ(tree.error(row.words), row.want) << row.why;
}

TEST(Command, GroupAloneAndHelpAnywhereMeanHelp) {
  Tree tree;
  const auto group = tree.root.parse({"box"});
  ASSERT_TRUE(group);
  EXPECT_TRUE(group->help);
  const auto help = tree.root.parse({"box", "run", "sb", "-h"});
  ASSERT_TRUE(help);
  EXPECT_TRUE(help->help);
  EXPECT_EQ(help->command, tree.run);
  const std::string text = tree.run->help_text();
  EXPECT_NE(text.find("Usage: osb box run [OPTIONS] ID WORDS...\n"), std::string::npos) << text;
  EXPECT_NE(text.find("-o, --output [table|json]"), std::string::npos) << text;
}

TEST(Command, CompletesCommandsOptionsAndValues) {
  Tree tree;
  const auto words = [&](const std::vector<std::string>& line) {
    std::string out;
    for (const Candidate& each : tree.root.complete(line).words) out += each.value + " ";
    return out;
  };
  EXPECT_EQ(words({"b"}), "box ");
  EXPECT_EQ(words({"box", ""}), "run list ");
  EXPECT_EQ(words({"box", "run", "--m"}), "--mode ");
  EXPECT_EQ(words({"box", "run", "-o", "j"}), "json ");
  EXPECT_EQ(tree.root.complete({"box", "run", ""}).dynamic, Completes::Sandboxes);
  EXPECT_EQ(tree.root.complete({"box", "run", "sb", ""}).dynamic, Completes::Nothing);
}

TEST(Values, DurationsAreWholeAndInOrder) {
  struct {
    const char* text;
    std::int64_t want;  // -1: refused
  } rows[] = {{"90", 90},   {" 10m ", 600}, {"1h30m", 5400}, {"1h5s", 3605}, {"2h1m1s", 7261},
              {"0", 0},     {"", -1},       {"5d", -1},      {"1.5h", -1},   {"1m1h", -1},
              {"1m2m", -1}, {"h", -1},      {"-5", -1},      {"5 m", -1},    {"99999999999h", -1}};
  for (const auto& row : rows) {
    const auto parsed = parse_cli_duration(row.text);
    EXPECT_EQ(parsed ? parsed->count() : -1, row.want) << row.text;
  }
}

TEST(Values, ModesAreOctalDigits) {
  Mode mode;
  EXPECT_FALSE(parse_value("0644", mode));
  EXPECT_EQ(mode.value, 644);
  for (const char* bad : {"789", "rwx", "-1", "77777", ""}) EXPECT_TRUE(parse_value(bad, mode)) << bad;
}

TEST(Values, KeyValueSplitsAtTheFirstEqualsSign) {
  KeyValue pair;
  EXPECT_FALSE(parse_value("A=b=c", pair));
  EXPECT_EQ(pair, KeyValue("A", "b=c"));
  EXPECT_FALSE(parse_value("A=", pair));
  EXPECT_EQ(pair, KeyValue("A", ""));
  EXPECT_EQ(parse_value("A", pair), "Expected KEY=VALUE format, got 'A'");
}

}  // namespace
}  // namespace osb::cli
