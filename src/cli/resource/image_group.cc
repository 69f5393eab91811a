#include <cstring>
#include <map>
#include <unistd.h>

#include "cli/encode.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/transfer/transfer_progress.h"
#include "client/local_file.h"

namespace osb::cli {
namespace {

using opensandbox::Image;

const std::vector<Format> kListFormats = {Format::Table, Format::Wide, Format::Json, Format::Yaml};

struct Options {
  std::string image, username, password, platform, name;
  std::vector<std::string> images;
  bool force = false;
};

json::object to_json(const Image& image) {
  json::value platform = nullptr;
  if (image.platform) platform = image.platform->os + "/" + image.platform->arch;
  json::value size = nullptr;
  if (image.size_bytes) size = *image.size_bytes;
  return {{"uri", image.uri},
          {"digest", text_or_null(image.digest)},
          {"platform", std::move(platform)},
          {"size_bytes", std::move(size)},
          {"created_at", time_or_null(image.created_at)}};
}

json::object to_row(const Image& image) {
  json::object out = to_json(image);
  out["size"] = image.size_bytes ? json::value(format_bytes(static_cast<double>(*image.size_bytes))) : json::value();
  return out;
}

void show(CommandIo& context, const std::vector<Image>& images) {
  json::array rows;
  const bool structured = context.out().structured();
  for (const Image& each : images) rows.push_back(structured ? to_json(each) : to_row(each));
  if (structured) {
    context.out().data(rows);
  } else if (rows.empty()) {
    context.out().info("No images.");
  } else {
    using Kind = Column::Kind;
    context.out().table(rows, {{.key = "uri", .least = 20, .header = "image"},
                               {.key = "size"},
                               {.key = "platform", .rank = 3},
                               {.key = "created_at", .kind = Kind::Age, .rank = 2, .header = "created"},
                               {.key = "digest", .rank = 4, .least = 19}});
  }
}

// The progress of a pull, which comes layer by layer.
class PullBar {
 public:
  PullBar(const Output& output, std::string image) : image_(std::move(image)), spinner_(output, "Pulling " + image_) {}

  void update(const opensandbox::PullProgress& progress) {
    if (progress.layer.empty()) return spinner_.update(image_ + ": " + progress.phase);
    layers_[progress.phase + progress.layer] = {progress.current_bytes, progress.total_bytes.value_or(0)};
    std::uint64_t done = 0, total = 0;
    for (const auto& [name, bytes] : layers_) {
      if (!name.starts_with(progress.phase)) continue;
      done += bytes.first;
      total += std::max(bytes.first, bytes.second);
    }
    spinner_.update(progress_line(image_ + ": " + progress.phase, done, total, time_.elapsed()));
  }

 private:
  std::string image_;
  Stopwatch time_;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> layers_;
  Spinner spinner_;
};

Outcome pull(CommandIo& context, const Options& options) {
  if (options.username.empty() != options.password.empty()) return invalid("--username and --password go together.");
  opensandbox::PullOptions wanted;
  wanted.image = options.image;
  if (!options.username.empty()) wanted.auth = {options.username, options.password};
  if (!options.platform.empty()) {
    const std::size_t slash = options.platform.find('/');
    if (slash == std::string::npos) return usage_error("--platform is OS/ARCH, as in linux/amd64.");
    wanted.platform = {options.platform.substr(0, slash), options.platform.substr(slash + 1)};
  }
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  opensandbox::Result<Image> image;
  {
    PullBar bar(context.out(), options.image);
    image = manager->pull_image(wanted, [&](const opensandbox::PullProgress& progress) {
      bar.update(progress);
      return true;
    });
  }
  if (!image) return sdk_failed(context, image.error());
  if (context.out().structured()) {
    context.out().data(to_json(*image));
  } else {
    context.out().ok("Pulled: " + image->uri);
  }
  return 0;
}

Outcome list(CommandIo& context) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  auto images = manager->images();
  if (!images) return sdk_failed(context, images.error());
  show(context, *images);
  return 0;
}

Outcome remove(CommandIo& context, const Options& options) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  json::array rows;
  Spinner spinner(context.out(), "Removing");
  for (const std::string& image : options.images) {
    if (auto removed = manager->remove_image(image, options.force); !removed) {
      Problem problem = sdk_failed(context, removed.error()).error();
      if (removed.error().not_found()) problem.hint = "See 'osb image ls' for what there is.";
      return failed(std::move(problem));
    }
    rows.push_back(json::object{{"image", image}, {"status", "removed"}});
  }
  spinner.stop();
  context.out().rows(rows, {"image", "status"});
  return 0;
}

opensandbox::Result<std::vector<Image>> load_stdin(const opensandbox::SandboxManager& manager, const std::string& name,
                                                   TransferBar& bar) {
  const opensandbox::TransferProgress progress = bar.callback();
  opensandbox::DescriptorSource input(STDIN_FILENO, "standard input", std::nullopt, progress);
  return manager.load_image([&] { return input.next(); }, name);
}

Outcome load(CommandIo& context, const Options& options) {
  if (options.image == "-" && ::isatty(STDIN_FILENO) != 0)
    return invalid("Standard input is a terminal, not an archive.");
  if (options.image != "-" && ::access(options.image.c_str(), R_OK) != 0) {
    return invalid(options.image + ": " + std::strerror(errno) + ".");
  }
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  opensandbox::Result<std::vector<Image>> images;
  {
    TransferBar bar(context.out(), options.image == "-" ? "standard input" : options.image);
    images = options.image == "-" ? load_stdin(*manager, options.name, bar)
                                  : manager->load_image(options.image, options.name, bar.callback());
  }
  if (!images) return sdk_failed(context, images.error());
  show(context, *images);
  return 0;
}

}  // namespace

void add_images_command(Command& root, CommandIo& context) {
  Command& command = root.command("images", "List images; the same as 'osb image list'.");
  command.formats(kListFormats).action([&context] { return list(context); });
}

void add_image_group(Command& root, CommandIo& context) {
  Command& group = root.command("image", "The images of a server with its own image store (native runtime).");
  const std::vector<Format> formats = {Format::Table, Format::Json, Format::Yaml};
  {
    Command& command = group.command("pull", "Fetch an image from its registry.");
    Options& options = command.values<Options>();
    command.argument("IMAGE", options.image);
    command.option("--username", "TEXT", "For a private registry.", options.username);
    command.option("--password", "TEXT", "For a private registry.", options.password);
    command.option("--platform", "OS/ARCH", "Another platform than the host's.", options.platform);
    command.formats(formats).action([&context, &options] { return pull(context, options); });
  }
  for (const char* name : {"ls", "list"}) {
    Command& command = group.command(name, "List the images that are there.");
    if (std::string_view(name) == "list") command.hidden();
    command.formats(kListFormats).action([&context] { return list(context); });
  }
  {
    Command& command = group.command("rm", "Remove images.");
    Options& options = command.values<Options>();
    command.argument("IMAGE", options.images).completes(Completes::Images);
    command.flag("-f,--force", "Also an image that sandboxes use; they keep its files.", options.force);
    command.formats(formats).action([&context, &options] { return remove(context, options); });
  }
  {
    Command& command = group.command("load", "Load an archive of images, or the tar of a root directory.");
    command.details(
        "Takes archives of 'docker save', OCI archives, and with --name the tar of a root directory, as 'docker "
        "export' "
        "or 'tar c -C ROOT .' write it; gzip and zstd too.");
    Options& options = command.values<Options>();
    command.argument("FILE", options.image, "- is standard input.").completes(Completes::Files);
    command.option("--name", "IMAGE", "For a root directory, or an archive that names none.", options.name);
    command.formats(formats).action([&context, &options] { return load(context, options); });
  }
}

}  // namespace osb::cli
