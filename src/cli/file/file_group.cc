#include "base/text.h"
#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/file/file_commands.h"
#include "client/missing_file.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

struct ManyPaths {
  std::string id;
  std::vector<std::string> paths;
  bool force = false;
  PermissionOptions permission;
};

Command& paths_command(Command& group, std::string name, std::string summary, ManyPaths& o) {
  Command& command = group.command(std::move(name), std::move(summary));
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("PATHS", o.paths);
  command.formats(kFormats);
  return command;
}

void show_paths(CommandIo& context, const ManyPaths& o, std::string_view status, std::string_view title) {
  json::array rows;
  for (const std::string& path : o.paths) rows.push_back({{"path", path}, {"status", status}});
  context.out().rows(rows, {"path", "status"}, title);
}

using Remove = opensandbox::Result<void> (opensandbox::Files::*)(const std::vector<std::string>&) const;

// execd calls it a success when there is nothing to delete. So the paths are looked at first: those that exist are
// deleted, the others are an error.
Outcome remove_paths(CommandIo& context, ManyPaths& o, Remove remove, std::string_view status, std::string_view title) {
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  context.out().busy("Deleting...");
  const opensandbox::Files files = sandbox->files();
  std::vector<std::string> there, missing;
  for (const std::string& path : o.paths) {
    const auto info = files.info(path);
    if (!info && !opensandbox::is_missing_file(info.error())) return sdk_failed(context, info.error());
    (info ? there : missing).push_back(path);
  }
  if (!there.empty()) {
    if (auto done = (files.*remove)(there); !done) return sdk_failed(context, done.error());
  }
  if (missing.empty() || o.force) {
    show_paths(context, o, status, title);
    return 0;
  }
  Problem problem{"", "FILE_NOT_FOUND",
                  joined(missing) + (missing.size() == 1 ? " does" : " do") + " not exist in the sandbox",
                  "-f ignores missing paths."};
  if (!there.empty()) problem.message += "; the other " + std::to_string(there.size()) + " were " + std::string(status);
  problem.status = 404;
  return failed(std::move(problem));
}

void add_remove(Command& group, CommandIo& context, const char* name, const char* summary, Remove remove,
                const char* status, const char* title) {
  ManyPaths& o = group.values<ManyPaths>();
  Command& command = paths_command(group, name, summary, o);
  command.flag("-f,--force", "A path that does not exist is no error.", o.force);
  command.action([&context, &o, remove, status, title] { return remove_paths(context, o, remove, status, title); });
}

void add_mkdir(Command& group, CommandIo& context) {
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

void add_info(Command& group, CommandIo& context) {
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
    using Kind = Column::Kind;
    context.out().table(rows,
                        {{.key = "path", .least = 20},
                         {.key = "size"},
                         {.key = "mode"},
                         {.key = "owner", .rank = 2},
                         {.key = "group", .rank = 3},
                         {.key = "created_at", .kind = Kind::Age, .rank = 4, .header = "created"},
                         {.key = "modified_at", .kind = Kind::Age, .rank = 1, .header = "modified"}},
                        "Path Info");
    return 0;
  });
}

void add_mv(Command& group, CommandIo& context) {
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

void add_search(Command& group, CommandIo& context) {
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
      context.out().table(rows, {{.key = "path", .least = 20}, {.key = "size"}, {.key = "owner", .rank = 1}},
                          "Search Results");
    }
    return 0;
  });
}

void add_chmod(Command& group, CommandIo& context) {
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

void add_replace(Command& group, CommandIo& context) {
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
    auto counts = sandbox->files().replace({{o.path, o.old_text, o.new_text}});
    if (!counts) return sdk_failed(context, counts.error());
    const auto found = counts->find(o.path);
    const bool counted = found != counts->end();  // some execds do not count
    if (counted && found->second == 0) {
      return failed(
          Problem{"", "NO_MATCH", "No match for '" + o.old_text + "' in " + o.path + "; nothing was replaced"});
    }
    Output& out = context.out();
    std::string message = "Replaced in: " + o.path;
    if (!counted) {
      out.ok(message);
    } else if (out.structured()) {
      out.data(json::object{{"status", "ok"}, {"message", message}, {"replaced_count", found->second}});
    } else {
      out.ok(message + " (" + std::to_string(found->second) + (found->second == 1 ? " match)" : " matches)"));
    }
    return 0;
  });
}

}  // namespace

void add_file_group(Command& root, CommandIo& context) {
  Command& group = root.command("file", "Work with files of a sandbox.");
  add_file_transfers(group, context);
  add_remove(group, context, "rm", "Delete files.", &opensandbox::Files::remove, "deleted", "Deleted Files");
  add_mv(group, context);
  add_mkdir(group, context);
  add_remove(group, context, "rmdir", "Delete directories with all that is in them.",
             &opensandbox::Files::remove_directories, "removed", "Removed Directories");
  add_search(group, context);
  add_info(group, context);
  add_chmod(group, context);
  add_replace(group, context);
}

}  // namespace osb::cli
