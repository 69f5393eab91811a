#include <algorithm>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>

#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/transfer/linked_directory.h"
#include "cli/transfer/remote_path.h"
#include "cli/transfer/transfer_progress.h"

namespace osb::cli {
namespace {

struct PathOptions {
  std::string id;
  std::vector<std::string> paths;
  bool recursive = false, all = false;
  std::int64_t depth = 0;
};

// "ID PATH.." and "ID:PATH PATH.." mean the same.
void take_path_of_id(PathOptions& options) {
  if (auto remote = parse_remote_path(options.id)) {
    options.id = remote->sandbox;
    if (!remote->path.empty()) options.paths.insert(options.paths.begin(), remote->path);
  }
}

json::object to_json(const opensandbox::FileInfo& info) {
  return {{"path", info.path},
          {"name", last_part(info.path)},
          {"type", info.type},
          {"size", info.size},
          {"mode", info.mode},
          {"owner", info.owner},
          {"group", info.group},
          {"modified_at", opensandbox::format_timestamp(info.modified_at)},
          {"created_at", opensandbox::format_timestamp(info.created_at)}};
}

Outcome list(CommandIo& context, PathOptions& options) {
  take_path_of_id(options);
  if (options.paths.empty()) options.paths.emplace_back("/");
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  const opensandbox::Files files = sandbox->files();
  json::array rows;
  {
    const Spinner spinner(context.out(), "Listing " + options.paths.front());
    for (const std::string& path : options.paths) {
      std::optional<int> depth;
      if (options.recursive) depth = 1'000'000;
      if (options.depth > 0) depth = static_cast<int>(options.depth);
      auto entries = files.list(path, depth);
      if (!entries && entries.error().status == 400) {
        // A file, or a link: to a directory it is entered, as ls does.
        if (const auto target = directory_behind(*sandbox, path)) {
          entries = files.list(*target, depth);
        } else if (auto info = files.info(path)) {
          rows.push_back(to_json(*info));
          continue;
        }
      }
      if (!entries) return sdk_failed(context, entries.error());
      for (const opensandbox::FileInfo& entry : *entries) {
        if (!options.all && last_part(entry.path).starts_with('.')) continue;
        rows.push_back(to_json(entry));
      }
    }
  }
  // Below several directories the name alone says too little.
  const bool whole = options.recursive || options.depth > 1 || options.paths.size() > 1;
  if (context.out().structured()) {
    context.out().data(rows);
  } else {
    using Kind = Column::Kind;
    context.out().table(rows, {{.key = "type", .rank = 3},
                               {.key = "mode", .rank = 4},
                               {.key = "owner", .rank = 5},
                               {.key = "group", .rank = 6},
                               {.key = "size"},
                               {.key = "modified_at", .kind = Kind::Age, .rank = 2, .header = "modified"},
                               {.key = whole ? "path" : "name", .least = 20}});
  }
  return 0;
}

Outcome cat(CommandIo& context, PathOptions& options) {
  take_path_of_id(options);
  if (options.paths.empty()) return usage_error("Which file?", "osb cat ID PATH");
  std::signal(SIGPIPE, SIG_DFL);  // like cat: a reader that has gone is no error
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  for (const std::string& path : options.paths) {
    const auto read = sandbox->files().read_to(path, [&](std::string_view piece) -> opensandbox::Result<void> {
      context.out().text(piece);
      return {};
    });
    context.out().flush();
    if (!read) return sdk_failed(context, read.error());
  }
  return 0;
}

}  // namespace

void add_ls_command(Command& root, CommandIo& context) {
  Command& command = root.command("ls", "List a directory of a sandbox.");
  PathOptions& options = command.values<PathOptions>();
  command.argument("SANDBOX_ID", options.id, "Or ID:PATH.").completes(Completes::Sandboxes);
  command.argument("PATH", options.paths, "Directories or files; / by default.").optional();
  command.flag("-a,--all", "Also names that begin with a dot.", options.all);
  command.flag("-R,--recursive", "Also the contents of directories below.", options.recursive);
  command.option("--depth", "N", "How many levels.", options.depth).range(1, 1'000'000);
  command.formats({Format::Table, Format::Wide, Format::Json, Format::Yaml});
  command.action([&context, &options] { return list(context, options); });
}

void add_cat_command(Command& root, CommandIo& context) {
  Command& command = root.command("cat", "Print files of a sandbox, byte for byte.");
  PathOptions& options = command.values<PathOptions>();
  command.argument("SANDBOX_ID", options.id, "Or ID:PATH.").completes(Completes::Sandboxes);
  command.argument("PATH", options.paths).optional();
  command.formats({Format::Raw});
  command.action([&context, &options] { return cat(context, options); });
}

}  // namespace osb::cli
