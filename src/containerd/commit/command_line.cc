#include "containerd/commit/command_line.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "api/json.h"
#include "base/text.h"

namespace osb::containerd {
namespace {

// A name of Kubernetes: it is put into a filter of containerd's as it is.
Result<std::string> name_of(const std::string& what, const std::string& text) {
  const bool good = !text.empty() && text.size() <= 253 &&
                    std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.'; });
  if (!good) return fail(Code::InvalidRequest, what + " '" + text + "' is no name of Kubernetes");
  return text;
}

Result<CommitTarget> target_of(const std::string& word, bool with_image) {
  CommitTarget out;
  const std::size_t colon = with_image ? word.find(':') : word.npos;
  if (with_image && colon == word.npos) {
    return fail(Code::InvalidRequest, "'" + word + "': expected CONTAINER:IMAGE");
  }
  auto name = name_of("container", word.substr(0, colon));
  if (!name) return Failure(name.error());
  out.container = std::move(*name);
  if (!with_image) return out;
  out.image = word.substr(colon + 1);
  auto reference = image::Reference::parse(out.image);
  if (!reference) return Failure(reference.error());
  if (reference->digest) return fail(Code::InvalidRequest, "image '" + out.image + "': expected a tag, not a digest");
  out.reference = std::move(*reference);
  return out;
}

Result<bool> read_switch(const Labels& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return false;
  const auto value = api::parse_lax_bool(found->second);
  if (!value) return fail(Code::InvalidRequest, name + ": expected true or false");
  return *value;
}

Result<void> read_environment(CommandLine& line, const Labels& environment) {
  const auto found = environment.find("CONTAINERD_SOCKET");
  if (found != environment.end() && !found->second.empty()) line.socket = found->second;
  const auto plain = read_switch(environment, "SNAPSHOT_REGISTRY_INSECURE");
  if (!plain) return Failure(plain.error());
  line.plain_http = *plain;
  return {};
}

Result<void> read_words(CommandLine& line, std::vector<std::string> words) {
  if (!words.empty() && words[0] == "unpause") {
    line.action = CommandLine::Action::Unpause;
    words.erase(words.begin());
  }
  if (words.size() < 3) return fail(Code::InvalidRequest, "expected a pod, a namespace and containers");
  auto pod = name_of("pod", words[0]), ns = name_of("namespace", words[1]);
  if (!pod) return Failure(pod.error());
  if (!ns) return Failure(ns.error());
  line.pod = std::move(*pod);
  line.ns = std::move(*ns);
  for (std::size_t i = 2; i < words.size(); ++i) {
    auto target = target_of(words[i], line.action == CommandLine::Action::Commit);
    if (!target) return Failure(target.error());
    if (std::ranges::find(line.targets, target->container, &CommitTarget::container) != line.targets.end()) {
      return fail(Code::InvalidRequest, "container '" + target->container + "' is named twice");
    }
    line.targets.push_back(std::move(*target));
  }
  return {};
}

}  // namespace

const char* usage() {
  return "usage: image-committer POD NAMESPACE CONTAINER:IMAGE...\n"
         "       image-committer unpause POD NAMESPACE CONTAINER...\n"
         "       image-committer --help | --version\n"
         "\n"
         "Saves containers of a pod of this node as images: pauses their processes, writes what they have changed as "
         "a\n"
         "layer, resumes them, and pushes the images to their registries. Prints the images' digests as JSON. The job "
         "of\n"
         "a SandboxSnapshot runs it; it speaks to containerd only and needs no capability.\n"
         "\n"
         "unpause lets containers go on that a killed run has left paused.\n"
         "\n"
         "  --credentials FILE  as docker login writes it; default /var/run/opensandbox/registry/config.json\n"
         "  --message FILE      gets the result, or the reason of a failure; default /dev/termination-log\n"
         "\n"
         "CONTAINERD_SOCKET           default /var/run/containerd/containerd.sock\n"
         "SNAPSHOT_REGISTRY_INSECURE  true: HTTP without TLS, to loopback and private addresses only\n";
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& args, const Labels& environment) {
  CommandLine out;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--help" || arg == "-h") {
      out.action = CommandLine::Action::ShowHelp;
      return out;
    }
    if (arg == "--version") {
      out.action = CommandLine::Action::ShowVersion;
      return out;
    }
    if (arg == "--credentials" || arg == "--message") {
      if (i + 1 == args.size()) return fail(Code::InvalidRequest, arg + " needs a file");
      (arg == "--message" ? out.message : out.credentials) = args[++i];
    } else if (arg.starts_with('-')) {
      return fail(Code::InvalidRequest, "unknown option " + arg);
    } else {
      words.push_back(arg);
    }
  }
  if (auto done = read_environment(out, environment); !done) return Failure(done.error());
  if (auto done = read_words(out, std::move(words)); !done) return Failure(done.error());
  return out;
}

}  // namespace osb::containerd
