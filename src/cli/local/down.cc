#include <cstdio>
#include <iostream>
#include <unistd.h>

#include "cli/config/saved_profile.h"
#include "cli/local/programs.h"
#include "cli/local/service_removal.h"
#include "cli/local/up.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

struct DownOptions {
  std::string directory{kServiceDirectory};
  bool purge = false, yes = false;
};

Outcome nothing_there(CommandIo& context, const fs::path& directory) {
  if (context.out().structured()) {
    context.out().data(json::object{{"status", "absent"}, {"directory", directory.string()}});
  } else {
    context.out().info("Nothing that 'osb up' has started is in " + directory.string() + ".");
  }
  return 0;
}

// Asks on the terminal. Nothing is deleted without an answer.
Expected<bool> confirmed(CommandIo& context, const fs::path& directory, const ServiceRecord& record) {
  const std::size_t running = count_running_sandboxes(record);
  const std::string what =
      "all sandboxes (" + std::to_string(running) + " running), images, snapshots and volumes in " + directory.string();
  if (::isatty(STDIN_FILENO) == 0) {
    return usage_error("'osb down --purge' deletes " + what + ".", "To do that without being asked, add --yes.");
  }
  context.out().flush();
  context.out().error_text("This deletes " + what + ".\nDelete them? [y/N] ");
  context.out().flush();
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Outcome purge(CommandIo& context, const fs::path& directory, bool yes) {
  const auto record = read_record(directory);
  if (!record) return failed(record.error());
  if (!*record) return nothing_there(context, directory);
  if (!yes) {
    const auto answer = confirmed(context, directory, **record);
    if (!answer) return failed(answer.error());
    if (!*answer) {
      context.out().info("Nothing was deleted.");
      return 1;
    }
  }
  Result<std::optional<ServiceRecord>> gone;
  {
    Spinner spinner(context.out(), "Removing");
    gone = purge_service(directory, [&](std::string what) { spinner.update(std::move(what)); });
  }
  if (!gone) return failed(gone.error(), "The rest is still there: run the command again.");
  if (!*gone) return nothing_there(context, directory);
  for (const SavedProfile& each : (*gone)->profiles) {
    const auto removed = remove_profile(each.file, each.name, {(*gone)->domain(), (*gone)->key});
    if (!removed && !context.out().structured()) {
      context.out().warning("Profile '" + each.name + "' stays in " + each.file.string() + ": " +
                            removed.error().message);
    }
  }
  if (context.out().structured()) {
    context.out().data(json::object{{"status", "purged"}, {"directory", directory.string()}});
  } else {
    context.out().ok("Stopped and deleted: sandboxes, images, snapshots, volumes and " + directory.string() + ".");
  }
  return 0;
}

Outcome down(CommandIo& context, const DownOptions& options) {
  const fs::path directory = fs::absolute(options.directory).lexically_normal();
  if (options.yes && !options.purge) return usage_error("--yes belongs to --purge.");
  if (auto root = become_root(); !root) return failed(root.error());
  if (options.purge) return purge(context, directory, options.yes);
  Result<std::optional<StoppedService>> stopped;
  {
    Spinner spinner(context.out(), "Stopping");
    stopped = stop_service(directory, [&](std::string what) { spinner.update(std::move(what)); });
  }
  if (!stopped) return failed(stopped.error());
  if (!*stopped) return nothing_there(context, directory);
  show_stopped(context.out(), directory, **stopped);
  return 0;
}

}  // namespace

void show_stopped(Output& out, const fs::path& directory, const StoppedService& stopped) {
  if (out.structured()) {
    return out.data(json::object{{"status", stopped.was_running ? "stopped" : "not running"},
                                 {"directory", directory.string()},
                                 {"sandboxes_running", stopped.sandboxes}});
  }
  const std::string up = local_command("up", directory), purge = local_command("down --purge", directory);
  out.ok((stopped.was_running ? "Stopped. " : "It was not running. ") +
         std::string("Sandboxes, images, snapshots and volumes stay in ") + directory.string() + ".");
  if (stopped.sandboxes > 0) {
    out.text((stopped.sandboxes == 1 ? "1 sandbox keeps" : std::to_string(stopped.sandboxes) + " sandboxes keep") +
             " running; the next start ends those whose deadline has passed.\n");
  }
  out.text("Start it again: " + up + "\nDelete everything: " + purge + "\n");
}

void add_down_command(Command& root, CommandIo& context) {
  Command& command = root.command("down", "Stop the service of 'osb up'; nothing is deleted without --purge.");
  command.details(
      "Ends the server and sandboxd. Images, snapshots, volumes and sandboxes stay; running sandboxes keep running, "
      "and "
      "'osb up' finds them again.");
  DownOptions& options = command.values<DownOptions>();
  command.option("--dir", "PATH", "As for 'osb up'.", options.directory);
  command.flag("--purge", "End the sandboxes too and delete everything, after asking.", options.purge);
  command.flag("--yes", "With --purge: do not ask.", options.yes);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.without_config();
  command.action([&context, &options] { return down(context, options); });
}

}  // namespace osb::cli
