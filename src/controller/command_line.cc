#include "controller/command_line.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "base/concat.h"
#include "base/duration.h"
#include "base/parse_number.h"

namespace osb::controller {
namespace {

using Text = const std::string&;
using Set = std::function<Result<void>(CommandLine&, Text)>;

Failure refused(std::string why) { return fail(Code::InvalidRequest, std::move(why)); }

template <typename Field>
Set text(Field field) {
  return [field](CommandLine& line, Text value) -> Result<void> {
    field(line) = value;
    return {};
  };
}

template <typename Field>
Set flag(Field field) {
  return [field](CommandLine& line, Text value) -> Result<void> {
    if (value != "true" && value != "false") return refused("expected true or false");
    field(line) = value == "true";
    return {};
  };
}

template <typename T, typename Field>
Set number(Field field, T least, T most) {
  return [=](CommandLine& line, Text value) -> Result<void> {
    const auto parsed = parse_number<T>(value);
    if (!parsed || *parsed < least || *parsed > most)
      return refused(concat("expected a number from ", least, " to ", most));
    field(line) = *parsed;
    return {};
  };
}

// ":8081", "127.0.0.1:8081", "[::]:8081"; "0" or nothing: off.
template <typename Field>
Set address(Field field) {
  return [field](CommandLine& line, Text value) -> Result<void> {
    field(line).reset();
    if (value.empty() || value == "0") return {};
    auto parsed = http::Address::parse(value.starts_with(':') ? "0.0.0.0" + value : value);
    if (!parsed) return Failure(parsed.error());
    field(line) = std::move(*parsed);
    return {};
  };
}

Result<void> set_concurrency(CommandLine& line, Text value) {
  std::string_view rest = value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view each = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    const std::size_t equals = each.find('=');
    const auto count = equals == each.npos ? std::nullopt : parse_number<std::size_t>(each.substr(equals + 1));
    if (!count || *count < 1 || *count > 1000)
      return refused("expected kind=number pairs, as in batchsandbox=32;pool=16");
    const std::string_view kind = each.substr(0, equals);
    if (kind == "batchsandbox") {
      line.controller.sandbox_workers = *count;
    } else if (kind == "pool") {
      line.controller.pool_workers = *count;
    } else if (kind == "snapshot") {
      line.controller.snapshot_workers = *count;
    } else {
      return refused("knows batchsandbox, pool and snapshot, not " + std::string(kind));
    }
  }
  return {};
}

Result<void> set_log_level(CommandLine& line, Text value) {
  auto level = parse_log_level(value);
  if (!level) return Failure(level.error());
  line.log_level = *level;
  return {};
}

Result<void> set_log_format(CommandLine& line, Text value) {
  if (value != "text" && value != "json") return refused("expected text or json");
  line.log_format = value == "json" ? LogFormat::Json : LogFormat::Text;
  return {};
}

Result<void> set_job_timeout(CommandLine& line, Text value) {
  const auto time = parse_duration(value);
  if (!time || *time < std::chrono::seconds(1)) return refused("expected a time such as 10m");
  line.controller.snapshots.job_timeout = std::chrono::ceil<std::chrono::seconds>(*time);
  return {};
}

Result<void> check_metrics_secure(CommandLine&, Text value) {
  if (value == "false") return {};
  return refused("metrics are served as plain HTTP; say false, and let a NetworkPolicy guard the port");
}

struct Flag {
  std::string_view name, value, help;  // an empty value: a switch
  Set set;
};

const std::vector<Flag>& flags() {
  using L = CommandLine;
  static const std::vector<Flag> kAll = {
      {"kubeconfig", "FILE", "Configuration of the cluster. Default: KUBECONFIG, then the pod's service account.",
       text([](L& l) -> auto& { return l.kubeconfig; })},
      {"context", "NAME", "Context of that file. Default: its current one.",
       text([](L& l) -> auto& { return l.context; })},
      {"namespace", "NAME", "Objects of this namespace only. Default: all namespaces.",
       text([](L& l) -> auto& { return l.controller.ns; })},
      {"leader-elect", "", "Wait for a lease, so that one of several processes works. Default: true.",
       flag([](L& l) -> auto& { return l.leader_elect; })},
      {"leader-election-namespace", "NAME", "Namespace of the lease. Default: POD_NAMESPACE, then the configuration's.",
       text([](L& l) -> auto& { return l.lease_namespace; })},
      {"leader-election-id", "NAME", "Name of the lease. Default: 2fa1c467.opensandbox.io.",
       text([](L& l) -> auto& { return l.lease_name; })},
      {"kube-client-qps", "N", "Reads a second and writes a second, in the long run; 0: no limit. Default: 100.",
       number<int>([](L& l) -> auto& { return l.qps; }, 0, 100'000)},
      {"kube-client-burst", "N", "Reads and writes at once. Default: 200.",
       number<int>([](L& l) -> auto& { return l.burst; }, 0, 100'000)},
      {"concurrency", "LIST", "Objects looked at once. Default: batchsandbox=32;pool=16;snapshot=4.", set_concurrency},
      {"health-probe-bind-address", "ADDRESS", "Address of /healthz and /readyz; 0: none. Default: :8081.",
       address([](L& l) -> auto& { return l.health; })},
      {"metrics-bind-address", "ADDRESS", "Address of /metrics; 0: none. Default: 0.",
       address([](L& l) -> auto& { return l.metrics; })},
      {"metrics-secure", "", "Only false is possible: metrics are plain HTTP.", check_metrics_secure},
      {"image-committer-image", "IMAGE",
       "Image of the program that saves containers. Default: this version's; empty: none.",
       text([](L& l) -> auto& { return l.controller.snapshots.committer_image; })},
      {"containerd-socket-path", "PATH", "containerd's socket on the nodes.",
       text([](L& l) -> auto& { return l.controller.snapshots.containerd_socket; })},
      {"commit-job-timeout", "TIME", "The longest time of a snapshot. Default: 10m.", set_job_timeout},
      {"snapshot-registry", "NAME", "Registry and path of snapshots' images. Default: none, snapshots fail.",
       text([](L& l) -> auto& { return l.controller.snapshots.registry; })},
      {"snapshot-registry-insecure", "", "That registry speaks plain HTTP. Default: false.",
       flag([](L& l) -> auto& { return l.controller.snapshots.registry_insecure; })},
      {"snapshot-push-secret", "NAME", "Secret with the registry's credentials, for pushing.",
       text([](L& l) -> auto& { return l.controller.snapshots.push_secret; })},
      {"resume-pull-secret", "NAME", "Secret with the registry's credentials, for pods that are resumed.",
       text([](L& l) -> auto& { return l.controller.pause.pull_secret; })},
      {"log-level", "LEVEL", "debug, info, warn or error. Default: info.", set_log_level},
      {"zap-log-level", "LEVEL", "The same, by the name that older charts use.", set_log_level},
      {"log-format", "FORMAT", "text or json. Default: text.", set_log_format},
  };
  return kAll;
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  CommandLine out;
  out.health = http::Address::tcp("0.0.0.0", 8081);
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (!word.starts_with('-') || word == "-" || word == "--") return refused("unexpected argument " + word);
    std::string name = word.substr(word.starts_with("--") ? 2 : 1);
    std::optional<std::string> value;
    if (const std::size_t equals = name.find('='); equals != name.npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "help" || name == "h") {
      out.help = true;
      continue;
    }
    if (name == "version") {
      out.version = true;
      continue;
    }
    if (name == "print-crds") {
      out.print_crds = true;
      if (value) out.crd = *value;
      continue;
    }
    const auto found = std::ranges::find(flags(), name, &Flag::name);
    if (found == flags().end()) return refused("unknown flag --" + name);
    if (!value && found->value.empty()) value = "true";
    if (!value && i + 1 < args.size()) value = args[++i];
    if (!value) return refused("--" + name + " needs a value");
    if (auto set = found->set(out, *value); !set) return with_context("--" + name, set.error());
  }
  return out;
}

std::string usage() {
  std::string out =
      "usage: opensandbox-controller [flags]\n"
      "       opensandbox-controller --print-crds[=PLURAL] | --help | --version\n\n"
      "Keeps BatchSandbox, Pool and SandboxSnapshot objects of a Kubernetes cluster.\n\n";
  for (const Flag& each : flags()) {
    std::string head = concat("  --", each.name, each.value.empty() ? "" : " ", each.value);
    head.resize(std::max<std::size_t>(head.size() + 1, 38), ' ');
    out += head + std::string(each.help) + "\n";
  }
  return out;
}

}  // namespace osb::controller
