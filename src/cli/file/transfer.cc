#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "cli/file/encoding.h"
#include "cli/file/file_commands.h"
#include "cli/output/spinner.h"
#include "cli/read_input.h"
#include "client/local_file.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

opensandbox::TransferProgress show_progress(Spinner& spinner, std::string what) {
  return [&spinner, what = std::move(what)](std::uint64_t done, std::optional<std::uint64_t> total) {
    constexpr double kMiB = 1 << 20;
    const double have = static_cast<double>(done) / kMiB;
    spinner.update(total ? fmt::format("{} {:.1f} of {:.1f} MiB", what, have, static_cast<double>(*total) / kMiB)
                         : fmt::format("{} {:.1f} MiB", what, have));
  };
}

std::unexpected<Problem> local_problem(const std::string& path, int error) {
  return invalid("Cannot use '" + path + "': " + std::strerror(error) + ".");
}

struct CatOptions {
  std::string id, path, encoding = "utf-8";
};

Outcome cat(CommandIo& context, CatOptions& o) {
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  Output& out = context.out();
  if (!is_utf8(o.encoding)) {
    auto bytes = sandbox->files().read(o.path);
    if (!bytes) return sdk_failed(context, bytes.error());
    auto text = convert_encoding(*bytes, o.encoding, "UTF-8");
    if (!text) return failed(text.error());
    out.text(*text);
    return 0;
  }
  const auto to_stdout = [&out](std::string_view bytes) -> opensandbox::Result<void> {
    out.text(bytes);
    if (std::ferror(out.out().file) == 0) return {};
    return opensandbox::Failure(opensandbox::Error{
        .kind = opensandbox::ErrorKind::Local, .code = "LOCAL_ERROR", .message = "cannot write to stdout"});
  };
  out.busy("Reading " + o.path);
  if (auto done = sandbox->files().read_to(o.path, to_stdout); !done) return sdk_failed(context, done.error());
  return 0;
}

struct WriteOptions {
  std::string id, path, encoding = "utf-8";
  std::optional<std::string> content;
  PermissionOptions permission;
};

// The content to write, in the file's encoding; nothing when standard input is sent as it comes.
Expected<std::optional<std::string>> content_of(const WriteOptions& o) {
  if (is_utf8(o.encoding)) return o.content;
  std::string text = o.content.value_or("");
  if (!o.content) {
    auto read = read_input("-", "input");
    if (!read) return failed(read.error());
    text = std::move(*read);
  }
  auto converted = convert_encoding(text, "UTF-8", o.encoding);
  if (!converted) return failed(converted.error());
  return std::optional(std::move(*converted));
}

Outcome write(CommandIo& context, WriteOptions& o) {
  const bool typed = !o.content && ::isatty(STDIN_FILENO) == 1;
  if (typed) context.out().error_text("Reading from stdin (Ctrl+D to finish):\n");
  auto content = content_of(o);
  if (!content) return failed(content.error());
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  if (!typed) context.out().busy("Writing " + o.path);
  const opensandbox::Files files = sandbox->files();
  if (*content) {
    if (auto done = files.write(o.path, **content, o.permission.get()); !done) return sdk_failed(context, done.error());
  } else {
    const opensandbox::TransferProgress unseen;
    opensandbox::DescriptorSource input(STDIN_FILENO, "standard input", std::nullopt, unseen);
    const auto done = files.write_from(o.path, [&] { return input.next(); }, o.permission.get());
    if (!done) return sdk_failed(context, done.error());
  }
  context.out().ok("Written: " + o.path);
  return 0;
}

struct TransferOptions {
  std::string id, from, to;
};

Outcome upload(CommandIo& context, TransferOptions& o) {
  const UniqueFd file(::open(o.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) {
    return usage_error("Invalid value for 'LOCAL_PATH': Path '" + o.from + "' does not exist.");
  }
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return local_problem(o.from, errno);
  if (S_ISDIR(status.st_mode)) return invalid("'" + o.from + "' is a directory.", "Use 'osb cp' for directories.");
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  Spinner spinner(context.out(), "Uploading " + o.from);
  auto done = sandbox->files().upload_fd(file.get(), o.to, PermissionOptions().get(),
                                         show_progress(spinner, "Uploading " + o.from));
  spinner.stop();
  if (!done) return sdk_failed(context, done.error());
  context.out().ok("Uploaded: " + o.from + " → " + o.to);
  return 0;
}

Outcome download(CommandIo& context, TransferOptions& o) {
  std::error_code error;
  const std::filesystem::path local(o.to);
  if (local.has_parent_path()) std::filesystem::create_directories(local.parent_path(), error);
  if (error) return local_problem(local.parent_path().string(), error.value());
  struct stat target{}, out{};
  const bool exists = ::stat(o.to.c_str(), &target) == 0;
  if (exists && S_ISDIR(target.st_mode)) return invalid("'" + o.to + "' is a directory; name the file to write.");
  const bool is_stdout = exists && ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == target.st_dev &&
                         out.st_ino == target.st_ino && !S_ISREG(out.st_mode);
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  Spinner spinner(context.out(), "Downloading " + o.from);
  const auto progress = show_progress(spinner, "Downloading " + o.from);
  opensandbox::Result<std::uint64_t> done = 0;
  if (is_stdout) {
    done = sandbox->files().download_fd(o.from, STDOUT_FILENO, progress);
  } else if (exists && !S_ISREG(target.st_mode)) {  // devices and pipes are written to, never replaced
    const UniqueFd file(::open(o.to.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0) return local_problem(o.to, errno);
    done = sandbox->files().download_fd(o.from, file.get(), progress);
  } else {
    done = sandbox->files().download(o.from, o.to, progress);
  }
  spinner.stop();
  if (!done) return sdk_failed(context, done.error());
  if (!is_stdout) context.out().ok("Downloaded: " + o.from + " → " + o.to);
  return 0;
}

}  // namespace

void add_file_transfers(Command& group, CommandIo& context) {
  Command& cat_command = group.command("cat", "Print a file of the sandbox.");
  CatOptions& c = cat_command.values<CatOptions>();
  cat_command.argument("SANDBOX_ID", c.id).completes(Completes::Sandboxes);
  cat_command.argument("PATH", c.path);
  cat_command.option("--encoding", "TEXT", "Encoding of the file (default: utf-8).", c.encoding);
  cat_command.formats({Format::Raw});
  cat_command.action([&context, &c] { return cat(context, c); });

  Command& write_command = group.command("write", "Write a file of the sandbox.");
  WriteOptions& w = write_command.values<WriteOptions>();
  write_command.argument("SANDBOX_ID", w.id).completes(Completes::Sandboxes);
  write_command.argument("PATH", w.path);
  write_command.option("-c,--content", "TEXT", "The content to write; without it stdin is read.", w.content);
  write_command.option("--encoding", "TEXT", "Encoding of the file (default: utf-8).", w.encoding);
  w.permission.add_to(write_command);
  write_command.formats(kFormats);
  write_command.action([&context, &w] { return write(context, w); });

  Command& upload_command = group.command("upload", "Copy a local file into the sandbox.");
  TransferOptions& u = upload_command.values<TransferOptions>();
  upload_command.argument("SANDBOX_ID", u.id).completes(Completes::Sandboxes);
  upload_command.argument("LOCAL_PATH", u.from).completes(Completes::Files);
  upload_command.argument("REMOTE_PATH", u.to);
  upload_command.formats(kFormats);
  upload_command.action([&context, &u] { return upload(context, u); });

  Command& download_command = group.command("download", "Copy a file of the sandbox to this machine.");
  TransferOptions& d = download_command.values<TransferOptions>();
  download_command.argument("SANDBOX_ID", d.id).completes(Completes::Sandboxes);
  download_command.argument("REMOTE_PATH", d.from);
  download_command.argument("LOCAL_PATH", d.to).completes(Completes::Files);
  download_command.formats(kFormats);
  download_command.action([&context, &d] { return download(context, d); });
}

}  // namespace osb::cli
