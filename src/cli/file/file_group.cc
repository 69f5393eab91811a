#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/file/file_commands.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

struct ManyPaths {
  std::string id;
  std::vector<std::string> paths;
  PermissionOptions permission;
};

Command& paths_command(Command& group, std::string name, std::string summary, ManyPaths& o) {
  Command& command = group.command(std::move(name), std::move(summary));
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("PATHS", o.paths);
  command.formats(kFormats);
  return command;
}

void show_paths(Context& context, const ManyPaths& o, std::string_view status, std::string_view title) {
  json::array rows;
  for (const std::string& path : o.paths) rows.push_back({{"path", path}, {"status", status}});
  context.out().rows(rows, {"path", "status"}, title);
}

void add_rm(Command& group, Context& context) {
  ManyPaths& o = group.values<ManyPaths>();
  paths_command(group, "rm", "Delete files.", o).action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Deleting files...");
    if (auto done = sandbox->files().remove(o.paths); !done) return sdk_failed(context, done.error());
    show_paths(context, o, "deleted", "Deleted Files");
    return 0;
  });
}

void add_mkdir(Command& group, Context& context) {
  ManyPaths& o = group.values<ManyPaths>();
  Command& command = paths_command(group, "mkdir", "Create directories, with their parents.", o);
  o.permission.add_to(command);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Creating directories...");
    if (auto done = sandbox->files().make_directories(o.paths, o.permission.get()); !done) {
      return sdk_failed(context, done.error());
    }
    show_paths(context, o, "created", "Created Directories");
    return 0;
  });
}

void add_rmdir(Command& group, Context& context) {
  ManyPaths& o = group.values<ManyPaths>();
  paths_command(group, "rmdir", "Delete directories with all that is in them.", o).action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Deleting directories...");
    if (auto done = sandbox->files().remove_directories(o.paths); !done) return sdk_failed(context, done.error());
    show_paths(context, o, "removed", "Removed Directories");
    return 0;
  });
}

void add_info(Command& group, Context& context) {
  ManyPaths& o = group.values<ManyPaths>();
  paths_command(group, "info", "Show size, owner, mode and times.", o).action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Reading...");
    auto infos = sandbox->files().infos(o.paths);
    if (!infos) return sdk_failed(context, infos.error());
    json::array rows;
    for (const std::string& path : o.paths) {
      if (const auto found = infos->find(path); found != infos->end()) rows.push_back(encode(found->second));
    }
    context.out().rows(rows, {"path", "size", "mode", "owner", "group", "created_at", "modified_at"}, "Path Info");
    return 0;
  });
}

void add_mv(Command& group, Context& context) {
  struct Options {
    std::string id, from, to;
  };
  Command& command = group.command("mv", "Move or rename.");
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("SOURCE", o.from);
  command.argument("DESTINATION", o.to);
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Moving...");
    if (auto done = sandbox->files().move(o.from, o.to); !done) return sdk_failed(context, done.error());
    context.out().ok("Moved: " + o.from + " → " + o.to);
    return 0;
  });
}

void add_search(Command& group, Context& context) {
  struct Options {
    std::string id, path, pattern;
  };
  Command& command = group.command("search", "Find files by name.");
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("PATH", o.path);
  command.option("-p,--pattern", "GLOB", "Pattern, such as *.py or **/*.txt.", o.pattern).required();
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Searching...");
    auto found = sandbox->files().search(o.path, o.pattern);
    if (!found) return sdk_failed(context, found.error());
    json::array rows;
    for (const auto& info : *found) rows.push_back(encode(info));
    if (rows.empty() && !context.out().structured()) {
      context.out().info("No files found.");
    } else {
      context.out().rows(rows, {"path", "size", "owner"}, "Search Results");
    }
    return 0;
  });
}

void add_chmod(Command& group, Context& context) {
  struct Options {
    std::string id, path;
    PermissionOptions permission;
  };
  Command& command = group.command("chmod", "Set permissions and owner.");
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("PATH", o.path);
  o.permission.add_to(command).required();
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Setting permissions...");
    if (auto done = sandbox->files().set_permissions({{o.path, o.permission.get()}}); !done) {
      return sdk_failed(context, done.error());
    }
    context.out().ok("Permissions set: " + o.path);
    return 0;
  });
}

void add_replace(Command& group, Context& context) {
  struct Options {
    std::string id, path, old_text, new_text;
  };
  Command& command = group.command("replace", "Replace text in a file.");
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("PATH", o.path);
  command.option("--old", "TEXT", "Text to look for.", o.old_text).required();
  command.option("--new", "TEXT", "Text to put there.", o.new_text).required();
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Replacing...");
    if (auto done = sandbox->files().replace({{o.path, o.old_text, o.new_text}}); !done) {
      return sdk_failed(context, done.error());
    }
    context.out().ok("Replaced in: " + o.path);
    return 0;
  });
}

}  // namespace

void add_file_group(Command& root, Context& context) {
  Command& group = root.command("file", "Work with files of a sandbox.");
  add_file_transfers(group, context);
  add_rm(group, context);
  add_mv(group, context);
  add_mkdir(group, context);
  add_rmdir(group, context);
  add_search(group, context);
  add_info(group, context);
  add_chmod(group, context);
  add_replace(group, context);
}

}  // namespace osb::cli
