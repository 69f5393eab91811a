#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "cli/more_commands.h"
#include "cli/transfer/linked_directory.h"
#include "cli/transfer/remote_path.h"
#include "cli/transfer/transfer_progress.h"
#include "client/local_file.h"
#include "client/missing_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;
using opensandbox::Files;

struct CpOptions {
  std::string from, to;
};

std::unexpected<Problem> local_problem(const std::string& path, int error) {
  return invalid(path + ": " + std::strerror(error) + ".");
}

// The octal digits of a mode as the number that the API takes: 0644 is 644.
int mode_digits(mode_t mode) {
  int out = 0, place = 1;
  for (mode_t bits = mode & 0777; bits != 0; bits >>= 3, place *= 10) out += static_cast<int>(bits & 7) * place;
  return out;
}

// Without setuid, setgid and sticky: a sandbox must not decide which user runs a local file.
mode_t mode_bits(int digits) {
  mode_t out = 0;
  for (int shift = 0; digits > 0 && shift < 9; digits /= 10, shift += 3) {
    out |= static_cast<mode_t>(digits % 10) << shift;
  }
  return out & 0777;
}

// Nothing: there is no such file there. A link to a directory is a directory.
opensandbox::Result<std::optional<opensandbox::FileInfo>> look(const opensandbox::Sandbox& sandbox,
                                                               const std::string& path) {
  auto info = sandbox.files().info(path);
  if (!info && opensandbox::is_missing_file(info.error())) return std::nullopt;
  if (!info) return std::unexpected(info.error());
  if (info->type == "symlink") {
    info->mode = 0;  // a link has none of its own
    if (directory_behind(sandbox, path)) info->type = "directory";
  }
  return *info;
}

bool is_directory(const std::optional<opensandbox::FileInfo>& info) { return info && info->type == "directory"; }

class Copy {
 public:
  explicit Copy(CommandIo& context) : context_(context) {}

  Outcome to_sandbox(const std::string& from, RemotePath to) {
    auto sandbox = context_.sandbox(to.sandbox);
    if (!sandbox) return failed(sandbox.error());
    const Files files = sandbox->files();
    const std::string target = to.path.empty() ? "." : to.path;
    auto there = look(*sandbox, target);
    if (!there) return sdk_failed(context_, there.error());
    if (from == "-") return from_stdin(files, target, is_directory(*there));
    struct stat st{};
    if (::stat(from.c_str(), &st) != 0) return local_problem(from, errno);
    const std::string name = last_part(from);
    const bool into = is_directory(*there) || target.ends_with('/');
    if (S_ISDIR(st.st_mode)) {
      if (*there && !is_directory(*there)) return invalid(target + " in the sandbox is not a directory.");
      std::string into_path = target;
      if (is_directory(*there) && !name.empty()) {
        into_path = join_path(target, name);
        there = look(*sandbox, into_path);
        if (!there) return sdk_failed(context_, there.error());
      }
      return directory_up(files, from, into_path, *there ? 0 : mode_digits(st.st_mode));
    }
    if (!S_ISREG(st.st_mode)) return invalid(from + " is neither a file nor a directory.");
    if (target.ends_with('/') && !*there)
      return invalid(target + " does not exist in the sandbox.",
                     "Make it first: osb file mkdir " + to.sandbox + " " + target);
    return file_up(files, from, into ? join_path(target, name) : target, mode_digits(st.st_mode));
  }

  Outcome from_sandbox(RemotePath from, const std::string& to) {
    auto sandbox = context_.sandbox(from.sandbox);
    if (!sandbox) return failed(sandbox.error());
    const Files files = sandbox->files();
    const std::string source = from.path.empty() ? "." : from.path;
    auto there = look(*sandbox, source);
    if (!there) return sdk_failed(context_, there.error());
    if (!*there) return invalid(source + " does not exist in the sandbox.");
    if (to == "-") return to_stdout(files, source, is_directory(*there));
    struct stat st{};
    const bool exists = ::stat(to.c_str(), &st) == 0;
    const bool into = exists && S_ISDIR(st.st_mode);
    const std::string name = last_part(source);
    if (is_directory(*there)) {
      if (exists && !into) return invalid(to + " is not a directory.");
      return directory_down(files, source, into && !name.empty() ? join_path(to, name) : to, (*there)->mode);
    }
    if (to.ends_with('/') && !exists) return invalid(to + " does not exist.");
    return file_down(files, source, into ? join_path(to, name) : to, (*there)->mode);
  }

 private:
  Outcome done(const std::string& from, const std::string& to, std::uint64_t bytes) {
    if (context_.out().structured()) {
      context_.out().data(json::object{{"from", from}, {"to", to}, {"bytes", bytes}});
    } else {
      context_.out().ok("Copied: " + from + " -> " + to);
    }
    return 0;
  }

  Outcome file_up(const Files& files, const std::string& from, const std::string& to, int mode) {
    opensandbox::Result<std::uint64_t> copied;
    {
      TransferBar bar(context_.out(), last_part(from));
      copied = files.upload(from, to, {.mode = mode, .owner = {}, .group = {}}, bar.callback());
    }
    if (!copied) return sdk_failed(context_, copied.error());
    return done(from, to, *copied);
  }

  // `mode` is for a directory that is made there, 0 leaves it; one that exists stays as it is.
  Outcome directory_up(const Files& files, const std::string& from, const std::string& to, int mode) {
    opensandbox::Result<std::uint64_t> copied;
    {
      TransferBar bar(context_.out(), from);
      copied = files.upload_directory(from, to, bar.callback());
    }
    if (!copied) return sdk_failed(context_, copied.error());
    if (mode != 0) {
      auto set = files.set_permissions({{to, {.mode = mode, .owner = {}, .group = {}}}});
      if (!set) return sdk_failed(context_, set.error());
    }
    return done(from, to, *copied);
  }

  Outcome file_down(const Files& files, const std::string& from, const std::string& to, int mode) {
    struct stat before{};
    const bool is_file = ::stat(to.c_str(), &before) != 0 || S_ISREG(before.st_mode);  // and not /dev/null, or a pipe
    opensandbox::Result<std::uint64_t> copied;
    {
      TransferBar bar(context_.out(), last_part(from));
      copied = files.download(from, to, bar.callback());
    }
    if (!copied) return sdk_failed(context_, copied.error());
    if (is_file && mode != 0) (void)::chmod(to.c_str(), mode_bits(mode));
    return done(from, to, *copied);
  }

  // The same, the other way.
  Outcome directory_down(const Files& files, const std::string& from, const std::string& to, int mode) {
    const bool is_new = ::access(to.c_str(), F_OK) != 0;
    opensandbox::Result<std::uint64_t> copied;
    {
      TransferBar bar(context_.out(), from);
      copied = files.download_directory(from, to, bar.callback());
    }
    if (!copied) return sdk_failed(context_, copied.error());
    if (is_new && mode != 0) (void)::chmod(to.c_str(), mode_bits(mode));
    return done(from, to, *copied);
  }

  // A tar archive where there is a directory, else the contents of a file.
  Outcome from_stdin(const Files& files, const std::string& to, bool directory) {
    TransferBar bar(context_.out(), "standard input");
    const opensandbox::TransferProgress progress = bar.callback();
    opensandbox::DescriptorSource input(STDIN_FILENO, "standard input", std::nullopt, progress);
    const opensandbox::ByteSource source = [&] { return input.next(); };
    const auto sent = directory ? files.write_archive(to, source) : files.write_from(to, source);
    if (!sent) return sdk_failed(context_, sent.error());
    return 0;
  }

  // A directory comes as a tar archive.
  Outcome to_stdout(const Files& files, const std::string& from, bool directory) {
    std::signal(SIGPIPE, SIG_DFL);
    if (directory && ::isatty(STDOUT_FILENO) != 0) {
      return invalid(from + " is a directory: its tar archive does not belong on a terminal.");
    }
    context_.out().flush();
    const opensandbox::ByteSink sink = [](std::string_view piece) {
      return opensandbox::write_fd(STDOUT_FILENO, piece, "standard output");
    };
    const auto got = directory ? files.read_archive(from, sink) : files.read_to(from, sink);
    if (!got) return sdk_failed(context_, got.error());
    return 0;
  }

  CommandIo& context_;
};

Outcome copy(CommandIo& context, const CpOptions& options) {
  const auto from = parse_remote_path(options.from), to = parse_remote_path(options.to);
  if (from && to) {
    return usage_error("Both are in a sandbox.", "Copy to here first, or with: osb cp A:PATH - | osb cp - B:PATH");
  }
  if (!from && !to) {
    return usage_error("Neither is in a sandbox.",
                       "Write the one that is as ID:PATH, as in: osb cp notes.txt ID:/tmp/");
  }
  if (to) return Copy(context).to_sandbox(options.from, *to);
  return Copy(context).from_sandbox(*from, options.to);
}

}  // namespace

void add_cp_command(Command& root, CommandIo& context) {
  Command& command = root.command("cp", "Copy files and directories to and from a sandbox.");
  command.details(
      "One of the two is ID:PATH. A directory goes with all that is in it, modes, times and links included; into a "
      "directory that exists it goes under its own name, and DIR/. means its contents. - is standard input or output: "
      "the contents of a file, or a tar archive of a directory.");
  CpOptions& options = command.values<CpOptions>();
  command.argument("FROM", options.from).completes(Completes::RemotePaths);
  command.argument("TO", options.to).completes(Completes::RemotePaths);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options] { return copy(context, options); });
}

}  // namespace osb::cli
